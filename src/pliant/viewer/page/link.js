// The WebSocket: receives binary messages, sends short JSON texts, and reconnects after a failure.

const CLOSE_OCCUPIED = 4001, CLOSE_TAKEN_OVER = 4002;
const ARRAY_TYPES = { f: Float32Array, i: Int32Array };

// Decode a message: the length of its JSON head, the head, then the arrays that it names.
export function decode(buffer) {
  const words = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, words)));
  let at = 4 + words;
  head.arrays = {};
  for (const [name, kind, count] of head.blocks) {
    head.arrays[name] = new ARRAY_TYPES[kind](buffer, at, count);
    at += 4 * count;
  }
  return head;
}

export class Link {
  constructor(handlers) {
    this.handlers = handlers; // { scene, frame, error, state }
    this.tries = 0;
    this.open(false);
  }

  open(take) {
    const address = new URL("socket", location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(address.href + (take ? "?take" : ""));
    socket.binaryType = "arraybuffer";
    socket.onopen = () => this.handlers.state("open", "");
    socket.onmessage = ({ data }) => {
      this.tries = 0;
      const message = decode(data);
      this.handlers[message.type]?.(message);
    };
    socket.onclose = ({ code, reason }) => this.closed(code, reason);
    this.socket = socket;
  }

  closed(code, reason) {
    if (code === CLOSE_OCCUPIED && this.tries < 3) return this.retry(300); // after a reload, the old page may still be connected
    if (code === CLOSE_OCCUPIED || code === CLOSE_TAKEN_OVER) return this.handlers.state("taken", reason);
    this.handlers.state("lost", reason);
    this.retry(Math.min(4000, 250 * 2 ** this.tries));
  }

  retry(wait) {
    this.tries += 1;
    setTimeout(() => this.open(false), wait);
  }

  send(type, fields = {}) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ type, ...fields }));
  }
}
