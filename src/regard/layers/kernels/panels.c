/* x W^T in eight bits for many rows, on a CPU without VNNI: the tiles of products.c read a number of both sides for each
   two products, these panels five columns for sixteen rows at once. Whole numbers add up to the same in any order. */

#include "block.h"

#include <immintrin.h>
#include <string.h>

#define WIDE 16 /* rows of a panel: two vectors of sums a column */
#define COLUMNS 5 /* more do not fit into the registers */
#define NEAR 131072 /* numbers of the rows that stay in the cache while all columns pass by */

INLINE void spread(const int8_t pairs[WIDE][2], int16_t *out) {
    _mm256_storeu_si256((__m256i *)out, _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)pairs)));
    const __m128i *second = (const __m128i *)(pairs + WIDE / 2);
    _mm256_storeu_si256((__m256i *)(out + WIDE), _mm256_cvtepi8_epi16(_mm_loadu_si128(second)));
}

/* (k / 2, WIDE, 2): pairs of numbers, the sixteen rows side by side; rows and numbers that are missing are 0. */
INLINE void pack_rows(const int8_t *x, int64_t k, int64_t rows, int16_t *out) {
    int8_t pairs[WIDE][2] = {0};
    for (int64_t j = 0; j + 1 < k; j += 2) {
        for (int64_t r = 0; r < rows; r++) memcpy(pairs[r], x + r * k + j, 2);
        spread(pairs, out + j * WIDE);
    }
    if (k % 2) {
        for (int64_t r = 0; r < rows; r++) pairs[r][0] = x[r * k + k - 1], pairs[r][1] = 0;
        spread(pairs, out + (k - 1) * WIDE);
    }
}

static void pack(const int8_t *x, int64_t k, int64_t rows, int16_t *out) {
    rows < WIDE ? pack_rows(x, k, rows, out) : pack_rows(x, k, WIDE, out); /* the second without a loop */
}

static void widen(const int8_t *w, int64_t k, int64_t columns, int64_t even, int16_t *out) {
    for (int64_t c = 0; c < columns; c++) {
        out[c * even + even - 1] = 0;
        for (int64_t j = 0; j < k; j++) out[c * even + j] = w[c * k + j];
    }
}

INLINE void panel(const int16_t *w, const int16_t *x, int64_t even, int C, int32_t sums[COLUMNS][WIDE]) {
    __m256i low[COLUMNS], high[COLUMNS];
    for (int c = 0; c < C; c++) low[c] = high[c] = _mm256_setzero_si256();
    for (int64_t j = 0; j < even; j += 2) {
        __m256i first = _mm256_loadu_si256((const __m256i *)(x + j * WIDE));
        __m256i second = _mm256_loadu_si256((const __m256i *)(x + j * WIDE + 16));
        for (int c = 0; c < C; c++) {
            int32_t pair;
            memcpy(&pair, w + c * even + j, sizeof pair);
            __m256i both = _mm256_set1_epi32(pair);
            low[c] = _mm256_add_epi32(low[c], _mm256_madd_epi16(both, first));
            high[c] = _mm256_add_epi32(high[c], _mm256_madd_epi16(both, second));
        }
    }
    for (int c = 0; c < C; c++) {
        _mm256_storeu_si256((__m256i *)sums[c], low[c]);
        _mm256_storeu_si256((__m256i *)(sums[c] + 8), high[c]);
    }
}

/* For sixteen rows; first all sums of a column, which is what vectors can do. */
INLINE void put_panel(const Weight *w, Rows rows, int64_t row, int64_t column, int C, int32_t sums[COLUMNS][WIDE],
                      float *out, int add) {
    float values[COLUMNS][WIDE];
    int64_t n = rows.m - row < WIDE ? rows.m - row : WIDE;
    for (int c = 0; c < C; c++)
#pragma omp simd
        for (int64_t r = 0; r < n; r++)
            values[c][r] = scaled(w, (float)sums[c][r], rows.scales[row + r], column + c);
    for (int64_t r = 0; r < n; r++)
        for (int c = 0; c < C; c++) {
            float *place = out + (row + r) * w->n + column + c;
            *place = add ? *place + values[c][r] : values[c][r];
        }
}

INLINE void strip(const Weight *w, Rows rows, const int16_t *packed, int16_t *wide, int64_t column, int C, float *out,
                  int add) {
    int64_t even = (w->k + 1) / 2 * 2;
    widen((const int8_t *)w->values + column * w->k, w->k, C, even, wide);
    for (int64_t row = 0; row < rows.m; row += WIDE) {
        int32_t sums[COLUMNS][WIDE];
        panel(wide, packed + row * even, even, C, sums);
        put_panel(w, rows, row, column, C, sums, out, add);
    }
}

/* How many of m rows are for panels; one that is nearly full is worth it. */
int64_t many_of(int64_t m) {
#ifdef __AVX512VNNI__
    (void)m;
    return 0;
#else
    return m % WIDE < 12 ? m / WIDE * WIDE : m;
#endif
}

/* How many rows are packed at once: what the cache holds, and no more than there are. */
static int64_t some_of(int64_t k, int64_t m) {
    int64_t some = NEAR / (k + 1) / WIDE * WIDE, all = (m + WIDE - 1) / WIDE * WIDE;
    if (some < WIDE) some = WIDE;
    return some < all ? some : all;
}

/* Numbers of 16 bits that a thread needs for it, and to begin at a cache line. Never less for a larger k, so that the
   largest of several widths has room for all: `some_of` rows are fewer the wider they are, but not evenly so. */
int64_t panel_room(int64_t k, int64_t m) {
    int64_t all = (m + WIDE - 1) / WIDE * WIDE * (k + 1), most = NEAR + WIDE * (k + 1);
    return many_of(m) ? (all < most ? all : most) + COLUMNS * (k + 1) + 64 : 0;
}

/* Each thread packs the rows for itself. */
void product_of_many(const Weight *w, Rows rows, float *out, int add, Team team) {
    int64_t k = w->k, even = (k + 1) / 2 * 2, some = some_of(k, rows.m), low, high, column;
    int16_t *packed = (int16_t *)(((uintptr_t)rows.packed + 63) / 64 * 64), *wide = packed + some * even;
    share(w->n, COLUMNS, team, &low, &high);
    for (int64_t start = 0; start < rows.m; start += some) {
        int64_t n = rows.m - start < some ? rows.m - start : some;
        Rows these = {NULL, rows.rounded + start * k, rows.scales + start, n, NULL};
        for (int64_t row = 0; row < n; row += WIDE)
            pack(these.rounded + row * k, k, n - row < WIDE ? n - row : WIDE, packed + row * even);
        for (column = low; column + COLUMNS <= high; column += COLUMNS)
            strip(w, these, packed, wide, column, COLUMNS, out + start * w->n, add);
        for (; column < high; column++) strip(w, these, packed, wide, column, 1, out + start * w->n, add);
    }
}
