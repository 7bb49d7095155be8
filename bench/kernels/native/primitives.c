/* The loops of `primitives.py` in C, as one would write them: buffers in the order of the primitive's parameters with the
 * result behind, and then dims. One thread. */
#include <math.h>
#include <stdint.h>

#define F32(name, at) float *restrict name = b[at]
#define I64(name, at) const int64_t *restrict name = b[at]
#define U8(name, at) const uint8_t *restrict name = b[at]

void csr_vector(void *const *b, const int64_t *d) {
    I64(start, 0); I64(col, 1); F32(val, 2); F32(x, 3); F32(y, 4);
    for (int64_t i = 0; i < d[0]; i++) {
        float s = 0;
        for (int64_t p = start[i]; p < start[i + 1]; p++) s += val[p] * x[col[p]];
        y[i] = s;
    }
}

void csr_matrix(void *const *b, const int64_t *d) {
    I64(start, 0); I64(col, 1); F32(val, 2); F32(x, 3); F32(y, 4);
    int64_t n = d[1];
    for (int64_t i = 0; i < d[0]; i++) {
        for (int64_t j = 0; j < n; j++) y[i * n + j] = 0;
        for (int64_t p = start[i]; p < start[i + 1]; p++)
            for (int64_t j = 0; j < n; j++) y[i * n + j] += val[p] * x[col[p] * n + j];
    }
}

void stencil(void *const *b, const int64_t *d) {
    F32(x, 0); F32(y, 1);
    int64_t m = d[0], n = d[1];
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            y[i * n + j] = i > 0 && i < m - 1 && j > 0 && j < n - 1
                ? 0.5f * x[i * n + j] + 0.125f * (x[(i - 1) * n + j] + x[(i + 1) * n + j] + x[i * n + j - 1] + x[i * n + j + 1])
                : x[i * n + j];
}

void pairwise(void *const *b, const int64_t *d) {
    F32(x, 0); F32(z, 1); F32(y, 2);
    int64_t m = d[0], n = d[1], k = d[2];
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float s = 0;
            for (int64_t l = 0; l < k; l++) {
                float t = x[i * k + l] - z[j * k + l];
                s += t * t;
            }
            y[i * n + j] = sqrtf(s);
        }
}

void segments(void *const *b, const int64_t *d) {
    F32(x, 0); I64(at, 1); F32(y, 2);
    int64_t m = d[0], n = d[1], s = d[2];
    for (int64_t i = 0; i < s * n; i++) y[i] = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) y[at[i] * n + j] += x[i * n + j];
}

void lookup(void *const *b, const int64_t *d) {
    F32(table, 0); I64(at, 1); F32(y, 2);
    int64_t v = d[0], n = d[1], m = d[2];
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) y[i * n + j] = at[i] >= 0 && at[i] < v ? table[at[i] * n + j] : 0;
}

void prefix(void *const *b, const int64_t *d) {
    F32(x, 0); F32(y, 1);
    int64_t m = d[0], n = d[1];
    for (int64_t i = 0; i < m; i++) {
        float total = 0;
        for (int64_t j = 0; j < n; j++) {
            total += x[i * n + j];
            y[i * n + j] = total;
        }
    }
}

void histogram(void *const *b, const int64_t *d) {
    F32(x, 0);
    int64_t *restrict y = b[1];
    int64_t bins = d[1];
    for (int64_t i = 0; i < bins; i++) y[i] = 0;
    for (int64_t i = 0; i < d[0]; i++) {
        int64_t at = (int64_t)(x[i] * (float)bins);
        at = at < 0 ? 0 : at;
        y[at > bins - 1 ? bins - 1 : at] += 1;
    }
}

void masked_outer(void *const *b, const int64_t *d) {
    F32(a, 0); F32(u, 1); F32(v, 2); U8(mask, 3); F32(y, 4);
    int64_t m = d[0], n = d[1];
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) y[i * n + j] = a[i * n + j] + (mask[i * n + j] ? u[i] * v[j] : 0);
}

void banded(void *const *b, const int64_t *d) {
    F32(a, 0); F32(x, 1); F32(y, 2);
    int64_t n = d[0], m = d[1], w = d[2];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++) {
            float s = 0;
            for (int64_t k = i > w ? i - w : 0; k < (i + w + 1 < n ? i + w + 1 : n); k++) s += a[i * n + k] * x[k * m + j];
            y[i * m + j] = s;
        }
}

void argmax(void *const *b, const int64_t *d) {
    F32(x, 0);
    int64_t *restrict y = b[1];
    int64_t m = d[0], n = d[1];
    for (int64_t i = 0; i < m; i++) {
        float best = -__FLT_MAX__;
        int64_t at = 0;
        for (int64_t j = 0; j < n; j++)
            if (x[i * n + j] > best) {
                best = x[i * n + j];
                at = j;
            }
        y[i] = at;
    }
}

void bilinear(void *const *b, const int64_t *d) {
    F32(x, 0); F32(at, 1); F32(y, 2);
    int64_t h = d[0], w = d[1], c = d[2], m = d[3];
    for (int64_t i = 0; i < m; i++) {
        float r = at[2 * i] * (float)(h - 1), s = at[2 * i + 1] * (float)(w - 1);
        int64_t top = (int64_t)r, left = (int64_t)s;
        int64_t below = top + 1 < h ? top + 1 : h - 1, right = left + 1 < w ? left + 1 : w - 1;
        float p = r - (float)top, q = s - (float)left;
        for (int64_t k = 0; k < c; k++)
            y[i * c + k] = (1 - p) * ((1 - q) * x[(top * w + left) * c + k] + q * x[(top * w + right) * c + k])
                + p * ((1 - q) * x[(below * w + left) * c + k] + q * x[(below * w + right) * c + k]);
    }
}

void solve(void *const *b, const int64_t *d) {
    F32(l, 0); F32(x, 1); F32(y, 2);
    int64_t n = d[0];
    for (int64_t i = 0; i < n; i++) {
        float s = 0;
        for (int64_t j = 0; j < i; j++) s += l[i * n + j] * y[j];
        y[i] = (x[i] - s) / l[i * n + i];
    }
}

void masked_mean(void *const *b, const int64_t *d) {
    F32(x, 0); U8(mask, 1); F32(y, 2);
    int64_t n = d[1];
    for (int64_t i = 0; i < d[0]; i++) {
        float total = 0;
        int64_t count = 0;
        for (int64_t j = 0; j < n; j++)
            if (mask[i * n + j]) {
                total += x[i * n + j];
                count++;
            }
        y[i] = count > 0 ? total / (float)count : 0;
    }
}

void running(void *const *b, const int64_t *d) {
    F32(x, 0); F32(y, 1);
    int64_t n = d[1];
    for (int64_t i = 0; i < d[0]; i++) {
        float most = -3.402823466e38f;
        for (int64_t j = 0; j < n; j++) {
            most = x[i * n + j] > most ? x[i * n + j] : most;
            y[i * n + j] = most;
        }
    }
}

void eights(void *const *b, const int64_t *d) {
    F32(x, 0); F32(y, 1);
    for (int64_t i = 0; i < d[0]; i++) {
        float p[8];
        for (int j = 0; j < 8; j++) p[j] = x[i * 8 + j];
        for (int r = 0; r < 7; r++)
            for (int j = 0; j < 7 - r; j++) {
                float a = p[j], c = p[j + 1];
                p[j] = a < c ? a : c;
                p[j + 1] = a < c ? c : a;
            }
        for (int j = 0; j < 8; j++) y[i * 8 + j] = p[j];
    }
}

void torus(void *const *b, const int64_t *d) {
    F32(x, 0); F32(y, 1);
    int64_t h = d[0], w = d[1];
    for (int64_t i = 0; i < h; i++)
        for (int64_t j = 0; j < w; j++)
            y[i * w + j] = 0.25f * (x[(i + h - 1) % h * w + j] + x[(i + 1) % h * w + j] + x[i * w + (j + w - 1) % w]
                                    + x[i * w + (j + 1) % w]);
}

void depthwise(void *const *b, const int64_t *d) {
    F32(x, 0); F32(f, 1); F32(y, 2);
    int64_t h = d[1], w = d[2];
    for (int64_t k = 0; k < d[0]; k++)
        for (int64_t i = 0; i < h; i++)
            for (int64_t j = 0; j < w; j++) {
                float s = 0;
                for (int p = 0; p < 3; p++)
                    for (int q = 0; q < 3; q++)
                        if (i + p >= 1 && i + p <= h && j + q >= 1 && j + q <= w)
                            s += x[(k * h + i + p - 1) * w + j + q - 1] * f[k * 9 + p * 3 + q];
                y[(k * h + i) * w + j] = s;
            }
}

void average(void *const *b, const int64_t *d) {
    F32(x, 0); F32(y, 1);
    int64_t n = d[1];
    for (int64_t s = 0; s < d[0]; s++)
        for (int64_t j = 0; j < n; j++)
            y[s * n + j] = s == 0 ? x[j] : 0.1f * x[s * n + j] + 0.9f * y[(s - 1) * n + j];
}
