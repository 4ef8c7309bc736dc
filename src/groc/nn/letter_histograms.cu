// See letters.cuh.

constexpr int AHEAD = 8;  // strings that are read before they are added

template <int WIDTH>
__device__ __forceinline__ void histogram(
    const unsigned short* gradient, const byte* where, const byte* codes, const byte* rare, float* table,
    float* shift, int begin, int end, int stride, int offsets, int characters, int kept, int filters
) {
    int lane = threadIdx.x, filter = blockIdx.x * LANES + lane;
    float* own = reinterpret_cast<float*>(memory) + lane;  // [kept, WIDTH, LANES]
    for (int row = 0; row < kept * WIDTH; row++) own[row * LANES] = 0.f;
    for (int row = 0; row < characters * offsets; row++)  // what is not kept, and what is beyond this block's width
        if (row >= kept * offsets || row % offsets >= WIDTH) table[row * filters + filter] = 0.f;
    float total = 0.f;
    int places[AHEAD];
    float values[AHEAD];
    auto load = [&](int string) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            long long at = static_cast<long long>(string + i) * filters + filter;
            places[i] = string + i < end ? where[at] : NOWHERE;
            values[i] = string + i < end ? __uint_as_float(static_cast<unsigned>(gradient[at]) << 16) : 0.f;
        }
    };
    load(begin);
    for (int string = begin; string < end; string += AHEAD) {
        unsigned low[AHEAD], high[AHEAD];  // the window's characters
        float now[AHEAD];
        bool others[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            now[i] = places[i] == NOWHERE ? 0.f : values[i];
            int place = places[i] == NOWHERE ? 0 : places[i], in_word = place % 4 * 8;
            int this_one = min(string + i, end - 1);
            const unsigned* words = reinterpret_cast<const unsigned*>(
                codes + static_cast<long long>(this_one) * stride + (place & ~3)
            );
            others[i] = rare[this_one];
            low[i] = __funnelshift_r(words[0], words[1], in_word);
            high[i] = WIDTH > 4 ? __funnelshift_r(words[1], WIDTH > 5 ? words[2] : 0, in_word) : 0;
        }
        load(string + AHEAD);  // these arrive while the others are added
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            total += now[i];
            int at[WIDTH];
#pragma unroll
            for (int offset = 0; offset < WIDTH; offset++)
                at[offset] = (offset < 4 ? low[i] >> 8 * offset : high[i] >> 8 * (offset - 4)) & 0xff;
            if (others[i]) {
                for (int offset = 0; offset < WIDTH; offset++)
                    if (at[offset] < kept)
                        own[(at[offset] * WIDTH + offset) * LANES] += now[i];
                    else
                        table[(at[offset] * offsets + offset) * filters + filter] += now[i];
            } else {
                float sums[WIDTH];  // the offsets have places of their own: all may be read before any is written
#pragma unroll
                for (int offset = 0; offset < WIDTH; offset++)
                    sums[offset] = own[(at[offset] * WIDTH + offset) * LANES] + now[i];
#pragma unroll
                for (int offset = 0; offset < WIDTH; offset++)
                    own[(at[offset] * WIDTH + offset) * LANES] = sums[offset];
            }
        }
    }
    for (int character = 0; character < kept; character++)
#pragma unroll
        for (int offset = 0; offset < WIDTH; offset++)
            table[(character * offsets + offset) * filters + filter] = own[(character * WIDTH + offset) * LANES];
    shift[filter] = total;
}

// The gradients of the table, [share, character, offset, filter], and of the shifts, [share, filter].
// Grid: blocks of LANES filters, shares of strings. A block is one warp, each of whose threads has a filter.
extern "C" __global__ void letter_histograms(
    const unsigned short* gradient, const byte* where, const byte* codes, const byte* rare, const int* widths,
    float* tables, float* shifts, int strings, int share, int stride, int offsets, int characters, int kept, int filters
) {
    int begin = blockIdx.y * share, end = min(begin + share, strings);
    float* table = tables + static_cast<long long>(blockIdx.y) * characters * offsets * filters;
    float* shift = shifts + blockIdx.y * filters;
#define ADD(width) \
    histogram<width>( \
        gradient, where, codes, rare, table, shift, begin, end, stride, offsets, characters, kept, filters \
    )
    FOR_WIDTH(widths[blockIdx.x * LANES / BLOCK], ADD)
}
