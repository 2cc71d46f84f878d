/* SPDX-License-Identifier: MIT */
#include <cstdio>
#include <threelc/threelc.hpp>

int main()
{
    constexpr std::size_t n = 100000;
    std::vector<float> grad(n), received(n);
    tlc_config config = threelc::init<tlc_config>();

    config.codec = "3lc-golomb";
    threelc::Context context(n, config); /* one context per tensor: it keeps the residual */
    std::vector<unsigned char> buffer(context.bound());
    for (int step = 1; step <= 3; step++) {
        for (int i = 0; i < int(n); i++) /* your gradient */
            grad[std::size_t(i)] = float((i * 7 + step) % 1009 - 504) * float(i % 11) * 1e-5f;
        const threelc::Bytes frame = context.compress(grad, buffer); /* a failure is an exception */
        std::printf("step %d: %zu bytes become %zu\n", step, n * sizeof(float), frame.size());
        threelc::Decoder{}.decompress(frame, received); /* on the other machine */
    }
}
