/* What is done number by number, or row by row: norms, activations, softmax. */

#include "block.h"

#include <math.h>
#include <string.h>

/* e^x to the last bits of a float: x = n ln 2 + r, and a polynomial for r. In a form that the compiler turns into vectors. */
INLINE float exponential(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    float n = rintf(x * 1.44269504f), r = fmaf(n, -0.693359375f, x);
    r = fmaf(n, 2.12194440e-4f, r);
    float p = 1.9875691500e-4f;
    p = fmaf(p, r, 1.3981999507e-3f);
    p = fmaf(p, r, 8.3334519073e-3f);
    p = fmaf(p, r, 4.1665795894e-2f);
    p = fmaf(p, r, 1.6666665459e-1f);
    p = fmaf(p, r, 5.0000001201e-1f);
    p = fmaf(p * r, r, r) + 1.0f;
    int32_t bits = ((int32_t)n + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

INLINE float hyperbolic(float x) { return 1.0f - 2.0f / (exponential(2.0f * x) + 1.0f); }

/* Both sides of 0.92 have a polynomial of their own (figures by N. Juffa): for the tail that of log(1 - erf). */
INLINE float error_function(float x) {
    float t = fabsf(x), s = x * x;
    float tail = fmaf(fmaf(-1.72853470e-5f, t, 3.83197126e-4f), s, fmaf(-3.88396438e-3f, t, 2.42546219e-2f));
    tail = fmaf(tail, t, -1.06777877e-1f);
    tail = fmaf(tail, t, -6.34846687e-1f);
    tail = fmaf(tail, t, -1.28717512e-1f);
    tail = copysignf(1.0f - exponential(fmaf(tail, t, -t)), x);
    float near = fmaf(-5.96761703e-4f, s, 4.99119423e-3f);
    near = fmaf(near, s, -2.67681349e-2f);
    near = fmaf(near, s, 1.12819925e-1f);
    near = fmaf(near, s, -3.76125336e-1f);
    near = fmaf(near, s, 1.28379166e-1f);
    return t > 0.921875f ? tail : fmaf(near, x, x);
}

INLINE float activated(int64_t activation, float x) {
    switch (activation) {
        case RELU: return x < 0.0f ? 0.0f : x;
        case GELU: return 0.5f * x * (1.0f + error_function(x * 0.70710678f));
        case GELU_TANH: return 0.5f * x * (1.0f + hyperbolic(0.79788456f * fmaf(0.044715f * x * x, x, x)));
        case SILU: return x < -88.0f ? x * 0.0f : x / (1.0f + exponential(-x));
        default: return hyperbolic(x);
    }
}

INLINE void activate_by(int64_t activation, const float *x, const float *gated, float *out, int64_t n) {
    if (gated) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) out[i] = activated(activation, x[i]) * gated[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) out[i] = activated(activation, x[i]);
    }
}

void activate(int64_t activation, const float *x, const float *gated, float *out, int64_t n) {
    switch (activation) { /* each with a loop of its own */
        case RELU: activate_by(RELU, x, gated, out, n); break;
        case GELU: activate_by(GELU, x, gated, out, n); break;
        case GELU_TANH: activate_by(GELU_TANH, x, gated, out, n); break;
        case SILU: activate_by(SILU, x, gated, out, n); break;
        default: activate_by(TANH, x, gated, out, n);
    }
}

void normalise(const Norm *norm, const float *x, float *out, int64_t width) {
    float mean = 0.0f, squares = 0.0f;
    if (norm->kind == LAYER) {
#pragma omp simd reduction(+ : mean)
        for (int64_t i = 0; i < width; i++) mean += x[i];
        mean /= (float)width;
    }
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < width; i++) squares += (x[i] - mean) * (x[i] - mean);
    float scale = 1.0f / sqrtf(squares / (float)width + (float)norm->eps);
    const float *weight = norm->weight, *bias = norm->bias;
    if (bias) {
#pragma omp simd
        for (int64_t i = 0; i < width; i++) out[i] = fmaf((x[i] - mean) * scale, weight[i], bias[i]);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < width; i++) out[i] = (x[i] - mean) * scale * weight[i];
    }
}

void softmax(float *scores, int64_t n) {
    float largest = -INFINITY, sum = 0.0f;
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < n; i++) largest = scores[i] > largest ? scores[i] : largest;
    if (largest == -INFINITY) largest = 0.0f; /* nothing but closed keys, or NaN, which stays what it is */
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        scores[i] = scores[i] == -INFINITY ? 0.0f : exponential(scores[i] - largest);
        sum += scores[i];
    }
    float share = sum == 0.0f ? 0.0f : 1.0f / sum; /* a query that may attend to nothing gets zeros */
#pragma omp simd
    for (int64_t i = 0; i < n; i++) scores[i] *= share;
}

/* NaN and infinity come out as NaN: a broken model shows. */
float log_sum_exp(const float *scores, int64_t n, float largest) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += exponential(scores[i] - largest);
    return largest + logf(sum);
}
