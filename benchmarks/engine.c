#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The hedge over n + 1 uniform levels with clipped ridge learners as the theory states them: full inverse matrices, plain
   double loops. It searches and draws as the engine does, so it issues the same levels. */

static double clip(double w) { return w < 0 ? 0 : w > 1 ? 1 : w; }

static double dot(int d, const double *a, const double *b) {
    double s = 0;
    for (int i = 0; i < d; i++) s += a[i] * b[i];
    return s;
}

static uint64_t scramble(uint64_t h) {
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9u;
    h = (h ^ (h >> 27)) * 0x94D049BB133111EBu;
    return h ^ (h >> 31);
}

static double draw(int d, const double *x, uint64_t count, uint64_t seed) {
    uint64_t h = count * 0xBF58476D1CE4E5B9u, key = 0x9E3779B97F4A7C15u;
    for (int i = 0; i < d; i++) {
        uint64_t b;
        memcpy(&b, &x[i], 8);
        if (b == (uint64_t)1 << 63) b = 0;
        uint64_t spread = (b ^ (b >> 32)) * key;
        h += spread ^ (spread >> 32);
        key += 2 * 0x9E3779B97F4A7C15u;
    }
    return (double)(scramble(h ^ seed) >> 11) * 0x1p-53;
}

/* theta: (n+1, d), P: (n+1, d, d), g: (n+1, d), sums: (n+1, 3); p, mean: (rows) */
void run(long rows, int d, int n, const double *X, const double *y, uint64_t seed, double *theta, double *P, double *g,
         double *sums, double *u, double *p, double *mean) {
    for (long t = 0; t < rows; t++) {
        const double *x = X + t * d;
        int lo = 0, hi = n, k = (lo + hi) / 2, turn = 0;
        double wm = clip(dot(d, theta + k * d, x)), middle = (double)k / n, share;
        if (wm >= middle) { lo = k; share = (wm - middle) / (1 - middle); } else { hi = k; share = wm / middle; }
        k = lo + (int)(share * (hi - lo));
        if (k > hi - 1) k = hi - 1;
        double z[2], w[2];
        for (;;) {
            z[0] = (double)k / n; z[1] = (double)(k + 1) / n;
            w[0] = clip(dot(d, theta + k * d, x)); w[1] = clip(dot(d, theta + (k + 1) * d, x));
            turn++;
            if (w[0] < z[0] && k > lo) { hi = k; k = hi - 1; }
            else if (w[1] > z[1] && k + 1 < hi) { lo = k + 1; k = lo; }
            else break;
            if (turn % 3 == 0) { k = (lo + hi) / 2; if (k > hi - 1) k = hi - 1; }
        }
        lo = k;
        double a = w[0] - z[0], b = z[1] - w[1];
        double up = a > 0 ? a / (a + b) : 0;
        p[t] = draw(d, x, t, seed) < up ? z[1] : z[0];
        mean[t] = z[0] + up * (z[1] - z[0]);
        for (int k = 0; k < 2; k++) {
            double alpha = k ? up : 1 - up;
            if (alpha <= 0) continue;
            int slot = lo + k;
            double *th = theta + slot * d, *A = P + (long)slot * d * d, *r = g + slot * d, *s = sums + 3 * slot;
            double miss = y[t] - dot(d, th, x), q = 0;
            for (int i = 0; i < d; i++) u[i] = dot(d, A + i * d, x);
            q = dot(d, u, x);
            double c = alpha / (1 + alpha * q);
            for (int i = 0; i < d; i++) th[i] += c * miss * u[i];
            for (int i = 0; i < d; i++)
                for (int j = 0; j < d; j++) A[i * d + j] -= c * u[i] * u[j];
            for (int i = 0; i < d; i++) r[i] += alpha * (y[t] - z[k]) * x[i];
            s[0] += alpha;
            s[1] += alpha * (w[k] - z[k]) * (w[k] + z[k] - 2 * y[t]);
            s[2] += alpha * c * q * (w[k] - y[t]) * (w[k] - y[t]);
        }
    }
}
