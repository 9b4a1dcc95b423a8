// The socket: binary messages come, small JSON texts go. It opens again by itself when it was cut.

const TAKEN = 4001, TAKEN_OVER = 4002;
const KINDS = { f: Float32Array, i: Int32Array };

// A message: the length of its JSON head, the head, then the arrays that it names.
export function unpacked(buffer) {
  const words = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, words)));
  let at = 4 + words;
  head.arrays = {};
  for (const [name, kind, count] of head.blocks) {
    head.arrays[name] = new KINDS[kind](buffer, at, count);
    at += 4 * count;
  }
  return head;
}

export class Link {
  constructor(heard) {
    this.heard = heard; // { scene, frame, error, state }
    this.tries = 0;
    this.open(false);
  }

  open(take) {
    const address = new URL("socket", location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address.href + (take ? "?take" : ""));
    socket.binaryType = "arraybuffer";
    socket.onopen = () => this.heard.state("open", "");
    socket.onmessage = ({ data }) => {
      this.tries = 0;
      const message = unpacked(data);
      this.heard[message.type]?.(message);
    };
    socket.onclose = ({ code, reason }) => this.closed(code, reason);
    this.socket = socket;
  }

  closed(code, reason) {
    if (code === TAKEN && this.tries < 3) return this.again(300); // a page that was just reloaded may still be there
    if (code === TAKEN || code === TAKEN_OVER) return this.heard.state("taken", reason);
    this.heard.state("lost", reason);
    this.again(Math.min(4000, 250 * 2 ** this.tries));
  }

  again(wait) {
    this.tries += 1;
    setTimeout(() => this.open(false), wait);
  }

  say(say, more = {}) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ say, ...more }));
  }
}
