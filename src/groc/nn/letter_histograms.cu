// See letters.cuh.

constexpr int AHEAD = 8;  // strings that are taken together, and how far ahead memory is asked for what comes next

// What was read of some strings for one filter. It is used one turn later, when it has arrived.
struct Marked {
    unsigned place[AHEAD], gradient[AHEAD];
};
struct Words {
    unsigned of[AHEAD][3];  // enough for a window that begins in the first
};

template <int WIDTH>
__device__ __forceinline__ void add_strings(
    float* own, float* rare, float& total, const Marked& marked, const Words& words, int many, int offsets, int kept,
    unsigned beyond, int filters
) {
    unsigned low[AHEAD], high[AHEAD], any = 0;  // the characters of the windows
    float value[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
        bool nowhere = marked.place[i] == NOWHERE || i >= many;
        value[i] = nowhere ? 0.f : __uint_as_float(marked.gradient[i] << 16);
        int in_word = nowhere ? 0 : marked.place[i] % 4 * 8;
        low[i] = __funnelshift_r(words.of[i][0], words.of[i][1], in_word);
        high[i] = WIDTH > 4 ? __funnelshift_r(words.of[i][1], words.of[i][2], in_word) : 0;
        any |= low[i] | high[i];
        total += value[i];
    }
    auto character = [&](int i, int offset) {
        return (offset < 4 ? low[i] >> 8 * offset : high[i] >> 8 * (offset - 4)) & 0xff;
    };
    if (any & beyond) {
        for (int i = 0; i < AHEAD; i++)
            for (int offset = 0; offset < WIDTH; offset++) {
                int code = character(i, offset);
                if (code < kept)
                    own[(code * WIDTH + offset) * LANES] += value[i];
                else
                    rare[((code - kept) * offsets + offset) * filters] += value[i];
            }
        return;
    }
#pragma unroll
    for (int i = 0; i < AHEAD; i++) {
        float sums[WIDTH];  // the offsets have places of their own: all may be read before any is written
#pragma unroll
        for (int offset = 0; offset < WIDTH; offset++)
            sums[offset] = own[(character(i, offset) * WIDTH + offset) * LANES] + value[i];
#pragma unroll
        for (int offset = 0; offset < WIDTH; offset++)
            own[(character(i, offset) * WIDTH + offset) * LANES] = sums[offset];
    }
}

// `rare` begins at this thread's filter, as do `gradient` and `where`, which begin at the first of `strings` strings.
// `beyond` has the bits that characters which are not kept have and others have not.
template <int WIDTH>
__device__ __forceinline__ float histogram(
    float* own, float* rare, const unsigned short* gradient, const byte* where, const byte* codes, int strings,
    int stride, int offsets, int kept, unsigned beyond, int filters
) {
    Marked marked, next_marked;
    Words words, next_words;
    auto mark = [&](int first, Marked& marked) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            int at = min(first + i, strings - 1) * filters;
            marked.place[i] = where[at];
            marked.gradient[i] = gradient[at];
        }
    };
    auto read = [&](int first, const Marked& marked, Words& words) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            int place = marked.place[i] == NOWHERE ? 0 : marked.place[i] & ~3;
            const unsigned* from =
                reinterpret_cast<const unsigned*>(codes + min(first + i, strings - 1) * stride + place);
#pragma unroll
            for (int word = 0; word < 3; word++) words.of[i][word] = word * 4 < WIDTH + 3 ? from[word] : 0;
        }
    };
    float total = 0.f;
    mark(0, marked);
    mark(AHEAD, next_marked);
    read(0, marked, words);
    for (int first = 0; first < strings; first += AHEAD) {
        read(first + AHEAD, next_marked, next_words);
        Marked last_marked;
        mark(first + 2 * AHEAD, last_marked);
        add_strings<WIDTH>(own, rare, total, marked, words, strings - first, offsets, kept, beyond, filters);
        marked = next_marked, words = next_words, next_marked = last_marked;
    }
    return total;
}

// A warp counts on its own; then what the warps of a block have is added up.
template <int WIDTH>
__device__ __forceinline__ void histograms(
    const unsigned short* gradient, const byte* where, const byte* codes, float* table, float* rare, float* shift,
    int begin, int strings, int stride, int offsets, int characters, int kept, unsigned beyond, int filters
) {
    int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES, warps = blockDim.x / LANES;
    int filter = blockIdx.x * LANES + lane, rows = kept * WIDTH;
    float* all = reinterpret_cast<float*>(memory) + lane;  // [warps, kept, WIDTH, LANES]
    float* own = all + warp * rows * LANES;
    for (int row = 0; row < rows; row++) own[row * LANES] = 0.f;
    table += filter, rare += filter;
    for (int row = 0; row < (characters - kept) * offsets; row++) rare[row * filters] = 0.f;
    if (warp == 0)  // what is beyond this block's width
        for (int character = 0; character < kept; character++)
            for (int offset = WIDTH; offset < offsets; offset++)
                table[(character * offsets + offset) * filters] = 0.f;
    long long first = static_cast<long long>(begin) * filters + filter;
    shift[filter] = strings <= 0 ? 0.f
                                 : histogram<WIDTH>(
                                       own, rare, gradient + first, where + first,
                                       codes + static_cast<long long>(begin) * stride, strings, stride, offsets, kept,
                                       beyond, filters
                                   );
    __syncthreads();
    for (int row = warp; row < rows; row += warps) {
        float sum = 0.f;
        for (int each = 0; each < warps; each++) sum += all[(each * rows + row) * LANES];
        table[(row / WIDTH * offsets + row % WIDTH) * filters] = sum;
    }
}

// The gradients of the table, of the characters that are kept, [block, character, offset, filter], and of the others,
// [share, character, offset, filter], and of the shifts, [share, filter].
// Grid: blocks of LANES filters, blocks of shares of strings, one share a warp. Each thread has a filter. `limit` is a
// power of two: characters from there on are not kept.
extern "C" __global__ void letter_histograms(
    const unsigned short* gradient, const byte* where, const byte* codes, const int* widths, float* tables,
    float* rares, float* shifts, int strings, int share, int stride, int offsets, int characters, int limit, int filters
) {
    int number = blockIdx.y * (blockDim.x / LANES) + threadIdx.x / LANES, begin = number * share;
    int kept = min(characters, limit);
    unsigned beyond = 0x01010101u * (256 - limit);
    float* table = tables + static_cast<long long>(blockIdx.y) * kept * offsets * filters;
    float* rare = rares + static_cast<long long>(number) * (characters - kept) * offsets * filters;
    float* shift = shifts + number * filters;
#define ADD(width) \
    histograms<width>( \
        gradient, where, codes, table, rare, shift, begin, min(share, strings - begin), stride, offsets, characters, \
        kept, beyond, filters \
    )
    FOR_WIDTH(widths[blockIdx.x * LANES / BLOCK], ADD)
}
