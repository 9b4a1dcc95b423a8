// A plain MLS-MPM loop and its adjoint, the reference of `pliant bench mpm`. mpm_cpp.py compiles
// this file at run time and calls mpm_run.
//
// A substep is that of [Spielberg2021, eqs. A1-A8]: neo-Hookean, quadratic splines, and a floor from
// which nodes can separate. Particles keep their order, the grid is dense over a box, and a node has
// four doubles. The stress is P F^T = mu (F F^T - I) + lam log(J) I, which needs no inverse. Each
// thread scatters its part of the particles to its own grid. The sweep over the nodes adds the grids.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

struct Scene {  // as in mpm_cpp.py
  int64_t particles, substeps, threads;
  int64_t origin[3], shape[3];  // of the grid [cells]
  double cell, tau, floor, gravity[3];
};

template <int D>
struct Particle {
  double x[D], v[D], C[D][D], F[D][D];
};

struct Material {
  double mass, volume, mu, lam;
};

// a node: momentum or velocity in the first components, mass in the last
typedef double Vec4 __attribute__((vector_size(32)));
constexpr int MASS = 3;

inline double sum(Vec4 a) { return (a[0] + a[1]) + (a[2] + a[3]); }

// A node of a stencil: weight w, its gradient g and the vector d from the particle to the node.
template <int D>
struct Weight {
  double w, g[D], d[D];
};

template <int D>
struct Stencil {
  int64_t first, stride[D];  // index of the lowest of the 3^D nodes, and stride along each axis
  double w[D][3], g[D][3], d[D][3];

  // False if the particle has left the grid (or is not a number).
  bool place(const Scene& scene, const double* x) {
    const double per_cell = 1 / scene.cell;
    bool inside = true;
    int64_t step = 1;
    first = 0;
    for (int a = D - 1; a >= 0; --a) {
      const double base = std::floor(x[a] * per_cell - 0.5), f = x[a] * per_cell - base;
      const double i = base - double(scene.origin[a]);  // checked before the cast: it may be infinite
      inside &= i >= 0 && i + 2 < double(scene.shape[a]);
      stride[a] = step;
      first += int64_t(i) * step;
      step *= scene.shape[a];
      w[a][0] = 0.5 * (1.5 - f) * (1.5 - f);
      w[a][1] = 0.75 - (f - 1) * (f - 1);
      w[a][2] = 0.5 * (f - 0.5) * (f - 0.5);
      g[a][0] = (f - 1.5) * per_cell;
      g[a][1] = -2 * (f - 1) * per_cell;
      g[a][2] = (f - 0.5) * per_cell;
      for (int j = 0; j < 3; ++j) d[a][j] = (j - f) * scene.cell;
    }
    return inside;
  }

  template <class Visit>
  inline void each(Visit visit) const {
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) {
        const int64_t node = first + i * stride[0] + j * stride[1];
        const double wij = w[0][i] * w[1][j], gi = g[0][i] * w[1][j], gj = w[0][i] * g[1][j];
        if constexpr (D == 2)
          visit(node, Weight<2>{wij, {gi, gj}, {d[0][i], d[1][j]}});
        else
          for (int k = 0; k < 3; ++k) {
            const double wk = w[2][k];
            visit(node + k, Weight<3>{wij * wk, {gi * wk, gj * wk, wij * g[2][k]}, {d[0][i], d[1][j], d[2][k]}});
          }
      }
  }
};

template <int D>
inline double determinant(const double F[D][D]) {
  if constexpr (D == 2)
    return F[0][0] * F[1][1] - F[0][1] * F[1][0];
  else
    return F[0][0] * (F[1][1] * F[2][2] - F[1][2] * F[2][1]) + F[0][1] * (F[1][2] * F[2][0] - F[1][0] * F[2][2]) +
           F[0][2] * (F[1][0] * F[2][1] - F[1][1] * F[2][0]);
}

// cof F = J F^-T
template <int D>
inline void cofactor(const double F[D][D], double H[D][D]) {
  if constexpr (D == 2) {
    H[0][0] = F[1][1], H[0][1] = -F[1][0], H[1][0] = -F[0][1], H[1][1] = F[0][0];
  } else {
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) {
        const int a = (i + 1) % 3, b = (i + 2) % 3, c = (j + 1) % 3, d = (j + 2) % 3;
        H[i][j] = F[a][c] * F[b][d] - F[a][d] * F[b][c];
      }
  }
}

// A particle adds w (q + sum_a G[a] d[a]) to a node at d. q has m v and m; G[a] is column a of
// -tau 4/h^2 V P F^T + m C.
template <int D>
struct Contribution {
  Vec4 q, G[D];

  Contribution(const Scene& scene, const Particle<D>& p, const Material& material) {
    const double k = -scene.tau * 4 / (scene.cell * scene.cell) * material.volume;
    const double pressure = material.lam * std::log(determinant<D>(p.F)) - material.mu;
    q = Vec4{};
    q[MASS] = material.mass;
    for (int i = 0; i < D; ++i) q[i] = material.mass * p.v[i];
    for (int j = 0; j < D; ++j) {
      G[j] = Vec4{};
      for (int i = 0; i < D; ++i) {
        double K = i == j ? pressure : 0;
        for (int l = 0; l < D; ++l) K += material.mu * p.F[i][l] * p.F[j][l];
        G[j][i] = k * K + material.mass * p.C[i][j];
      }
    }
  }

  inline Vec4 at(const double d[D]) const {
    Vec4 a = q;
    for (int j = 0; j < D; ++j) a += G[j] * d[j];
    return a;
  }
};

template <int D>
struct Run {
  const Scene& scene;
  const Material* material;
  const int64_t n = scene.particles, T = scene.threads;
  const int64_t height = scene.shape[D - 1], nodes = columns() * height;
  const double affine = 4 / (scene.cell * scene.cell);
  std::vector<Particle<D>> states = std::vector<Particle<D>>((scene.substeps + 1) * n), adjoint = std::vector<Particle<D>>(n);
  // velocity and mass after each sweep
  std::vector<Vec4> grids = std::vector<Vec4>(scene.substeps * nodes);
  std::vector<std::vector<Vec4>> shares = std::vector<std::vector<Vec4>>(T, std::vector<Vec4>(nodes));

  int64_t columns() const { return D == 2 ? scene.shape[0] : scene.shape[0] * scene.shape[1]; }

  // Run all substeps from `start`. Return the number of substeps before a particle left the grid.
  // With `keep`, states and grids are stored for backward().
  int64_t forward(const Particle<D>* start, bool keep) {
    std::copy(start, start + n, states.begin());
    for (int64_t s = 0; s < scene.substeps; ++s) {
      const Particle<D>* now = &states[keep ? s * n : 0];
      Vec4* grid = &grids[keep ? s * nodes : 0];
      if (!scatter(now)) return s;
      sweep(grid);
      gather(now, grid, &states[keep ? (s + 1) * n : 0]);
    }
    return scene.substeps;
  }

  // Replace the adjoint of the last state by that of the initial state.
  void backward() {
    for (int64_t s = scene.substeps - 1; s >= 0; --s) {
      const Particle<D>* now = &states[s * n];
      const Vec4* grid = &grids[s * nodes];
      gather_back(now, grid, now + n);
      sweep_back(grid);
      scatter_back(now);
    }
  }

 private:
  // Call each(t, p) for every particle p; thread t of T has a contiguous part of the particles.
  template <class Each>
  void for_each_particle(Each each) {
#pragma omp parallel for num_threads(T) schedule(static, 1)
    for (int64_t t = 0; t < T; ++t)
      for (int64_t p = t * n / T; p < (t + 1) * n / T; ++p) each(t, p);
  }

  void clear() {
#pragma omp parallel for num_threads(T) schedule(static, 1)
    for (int64_t t = 0; t < T; ++t) std::fill(shares[t].begin(), shares[t].end(), Vec4{});
  }

  Vec4 total(int64_t node) const {
    Vec4 a = shares[0][node];
    for (int64_t t = 1; t < T; ++t) a += shares[t][node];
    return a;
  }

  bool is_floor(int64_t k) const { return (scene.origin[D - 1] + k) * scene.cell <= scene.floor; }

  bool scatter(const Particle<D>* now) {
    clear();
    bool inside = true;
    for_each_particle([&](int64_t t, int64_t p) {
      Stencil<D> stencil;
      if (!stencil.place(scene, now[p].x)) {
#pragma omp atomic write
        inside = false;
        return;
      }
      const Contribution<D> added(scene, now[p], material[p]);
      Vec4* grid = shares[t].data();
      stencil.each([&](int64_t node, const Weight<D>& at) { grid[node] += at.w * added.at(at.d); });
    });
    return inside;
  }

  // Compute velocities from momenta, with gravity and contact with the floor.
  void sweep(Vec4* grid) {
#pragma omp parallel for num_threads(T)
    for (int64_t c = 0; c < columns(); ++c)
      for (int64_t k = 0; k < height; ++k) {
        const int64_t node = c * height + k;
        Vec4 a = total(node);
        const double m = a[MASS];
        if (m > 0) {
          for (int i = 0; i < D; ++i) a[i] = a[i] / m + scene.tau * scene.gravity[i];
          if (is_floor(k) && a[D - 1] < 0) a[D - 1] = 0;
        }
        grid[node] = a;
      }
  }

  void gather(const Particle<D>* now, const Vec4* grid, Particle<D>* next) {
    for_each_particle([&](int64_t, int64_t p) {
      const Particle<D> old = now[p];  // a copy, since next may be now
      Stencil<D> stencil;
      stencil.place(scene, old.x);
      Vec4 v{}, B[D] = {};
      stencil.each([&](int64_t node, const Weight<D>& at) {
        const Vec4 wv = at.w * grid[node];
        v += wv;
        for (int j = 0; j < D; ++j) B[j] += wv * at.d[j];
      });
      Particle<D>& p_next = next[p];
      for (int i = 0; i < D; ++i) {
        p_next.v[i] = v[i];
        p_next.x[i] = old.x[i] + scene.tau * v[i];
        for (int j = 0; j < D; ++j) p_next.C[i][j] = affine * B[j][i];
      }
      for (int i = 0; i < D; ++i)
        for (int j = 0; j < D; ++j) {
          double CF = 0;
          for (int l = 0; l < D; ++l) CF += p_next.C[i][l] * old.F[l][j];
          p_next.F[i][j] = old.F[i][j] + scene.tau * CF;
        }
    });
  }

  // Compute the adjoint of the node velocities (in shares) and the contributions to the adjoints of
  // x and F from the adjoint of the next state.
  void gather_back(const Particle<D>* now, const Vec4* grid, const Particle<D>* next) {
    clear();
    for_each_particle([&](int64_t t, int64_t p) {
      const Particle<D> old = now[p], bar = adjoint[p];
      Stencil<D> stencil;
      stencil.place(scene, old.x);
      Vec4 v_bar{}, C_bar[D] = {};  // C_bar by columns, times 4/h^2
      for (int i = 0; i < D; ++i) {
        v_bar[i] = bar.v[i] + scene.tau * bar.x[i];
        for (int j = 0; j < D; ++j) {
          double FF = 0;
          for (int l = 0; l < D; ++l) FF += bar.F[i][l] * old.F[j][l];
          C_bar[j][i] = affine * (bar.C[i][j] + scene.tau * FF);
        }
      }
      Vec4* share = shares[t].data();
      Vec4 x_bar[D] = {};  // each is summed over its components below
      stencil.each([&](int64_t node, const Weight<D>& at) {
        Vec4 a = v_bar;
        for (int j = 0; j < D; ++j) a += C_bar[j] * at.d[j];
        share[node] += at.w * a;
        const Vec4 w_bar = a * grid[node];  // the mass component of a is zero
        for (int j = 0; j < D; ++j) x_bar[j] += at.g[j] * w_bar;
      });
      Particle<D>& out = adjoint[p];
      for (int j = 0; j < D; ++j) {
        double Cv = 0;
        for (int i = 0; i < D; ++i) Cv += C_bar[j][i] * next[p].v[i];
        out.x[j] = bar.x[j] + sum(x_bar[j]) - Cv;
        for (int i = 0; i < D; ++i) {
          double CF = 0;
          for (int l = 0; l < D; ++l) CF += next[p].C[l][i] * bar.F[l][j];
          out.F[i][j] = bar.F[i][j] + scene.tau * CF;
        }
      }
    });
  }

  // Compute the adjoint of momentum and mass, stored in shares[0], from that of the velocities.
  void sweep_back(const Vec4* grid) {
#pragma omp parallel for num_threads(T)
    for (int64_t c = 0; c < columns(); ++c)
      for (int64_t k = 0; k < height; ++k) {
        const int64_t node = c * height + k;
        Vec4 a = total(node);
        const double m = grid[node][MASS];
        if (m > 0) {
          if (is_floor(k) && grid[node][D - 1] == 0) a[D - 1] = 0;  // in contact with the floor
          double m_bar = 0;
          for (int i = 0; i < D; ++i) {
            a[i] /= m;
            m_bar -= a[i] * (grid[node][i] - scene.tau * scene.gravity[i]);
          }
          a[MASS] = m_bar;
        }
        shares[0][node] = a;
      }
  }

  // Compute the adjoint of the previous state from that of momentum and mass. x and F already have
  // the contributions of gather_back.
  void scatter_back(const Particle<D>* now) {
    const Vec4* bar = shares[0].data();
    for_each_particle([&](int64_t, int64_t p) {
      const Particle<D> old = now[p];
      const Material& of = material[p];
      Stencil<D> stencil;
      stencil.place(scene, old.x);
      const Contribution<D> added(scene, old, of);
      Vec4 q_bar{}, G_bar[D] = {}, x_bar[D] = {};  // x_bar is summed over its components below
      stencil.each([&](int64_t node, const Weight<D>& at) {
        const Vec4 wa = at.w * bar[node], w_bar = bar[node] * added.at(at.d);
        q_bar += wa;
        for (int j = 0; j < D; ++j) {
          G_bar[j] += wa * at.d[j];
          x_bar[j] += at.g[j] * w_bar;
        }
      });
      Particle<D>& out = adjoint[p];
      double trace = 0;
      for (int j = 0; j < D; ++j) {
        out.x[j] += sum(x_bar[j]) - sum(added.G[j] * q_bar);
        out.v[j] = of.mass * q_bar[j];
        for (int i = 0; i < D; ++i) out.C[i][j] = of.mass * G_bar[j][i];
        trace += G_bar[j][j];
      }
      // K = mu (F F^T - I) + lam log(J) I, so F_bar = mu (K_bar + K_bar^T) F + lam tr(K_bar) F^-T
      const double k = -scene.tau * affine * of.volume, pressure = k * of.lam * trace / determinant<D>(old.F);
      double H[D][D];
      cofactor<D>(old.F, H);
      for (int i = 0; i < D; ++i)
        for (int j = 0; j < D; ++j) {
          double KF = 0;
          for (int l = 0; l < D; ++l) KF += (G_bar[l][i] + G_bar[i][l]) * old.F[l][j];
          out.F[i][j] += k * of.mu * KF + pressure * H[i][j];
        }
    });
  }
};

template <class Work>
double seconds_of(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Run a scene repeats + 1 times; the first run warms up. `start` (n, 2 D + 2 D^2) and `material`
// (n, 4) are row-major. `seconds` is (repeats, 3): substeps in place, substeps with every state and
// grid stored, adjoint. Return the number of substeps before a particle left the grid.
template <int D>
int64_t run(const Scene& scene, const Particle<D>* start, const Material* material, const double* weights, int64_t repeats, double* positions,
            double* gradient, double* seconds) {
  Run<D> sim{scene, material};
  const int64_t n = scene.particles;
  for (int64_t r = -1; r < repeats; ++r) {
    int64_t done = 0;
    const double in_place = seconds_of([&] { done = sim.forward(start, false); });
    if (done < scene.substeps) return done;
    const double kept = seconds_of([&] { sim.forward(start, true); });
    std::fill(sim.adjoint.begin(), sim.adjoint.end(), Particle<D>{});
    for (int64_t p = 0; p < n; ++p) std::copy(weights + p * D, weights + (p + 1) * D, sim.adjoint[p].x);
    const double back = seconds_of([&] { sim.backward(); });
    if (r >= 0) seconds[3 * r] = in_place, seconds[3 * r + 1] = kept, seconds[3 * r + 2] = back;
  }
  for (int64_t p = 0; p < n; ++p)
    for (int i = 0; i < D; ++i) {
      positions[p * D + i] = sim.states[scene.substeps * n + p].x[i];
      gradient[p * D + i] = sim.adjoint[p].v[i];
    }
  return scene.substeps;
}

extern "C" int64_t mpm_run(int64_t dim, const Scene* scene, const double* start, const double* material, const double* weights,
                           int64_t repeats, double* positions, double* gradient, double* seconds) {
  const auto* of = reinterpret_cast<const Material*>(material);
  if (dim == 2)
    return run<2>(*scene, reinterpret_cast<const Particle<2>*>(start), of, weights, repeats, positions, gradient, seconds);
  return run<3>(*scene, reinterpret_cast<const Particle<3>*>(start), of, weights, repeats, positions, gradient, seconds);
}
