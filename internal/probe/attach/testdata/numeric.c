// Arithmetic whose intermediate values live in registers that only an interruption can harm: x87 stack, vectors as wide as
// this processor has them, mask and rounding settings, the red zone of a leaf function.
#include <fenv.h>
#include <stdint.h>
#include <string.h>

typedef double vec __attribute__((vector_size(64)));

static uint64_t mix(uint64_t h, const void *p, int n) {
	const unsigned char *b = p;
	for (int i = 0; i < n; i++)
		h = (h ^ b[i]) * 1099511628211u;
	return h;
}

static uint64_t leaf(uint64_t x) { // its array lies in the red zone
	volatile uint64_t a[12];
	for (int i = 0; i < 12; i++)
		a[i] = x += x << 7 ^ i;
	uint64_t s = 0;
	for (int i = 0; i < 12; i++)
		s ^= a[i] * (i + 1);
	return s;
}

uint64_t numeric(uint64_t seed, long rounds) {
	int before = fegetround();
	fesetround(FE_TOWARDZERO); // in MXCSR and in the x87 control word
	long double a = seed, b = 1.0L, c = 3.7L, d = 0.1L;
	vec v = {1, 2, 3, 4, 5, 6, 7, 8}, w = v * 0.25, u = v + 0.125, t = w - u;
	uint64_t r = seed;
	for (long i = 0; i < rounds; i++) {
		a = a * 0.999999L + b / 3;
		b = b * 1.000001L - c / 7;
		c = c + d * a;
		d = d / 1.0000001L - b * 1e-9L;
		v = v * w + u;
		w = w * 0.9999 + t / 3;
		u = u - v * 1e-3;
		t = t * 0.5 + w;
		r = leaf(r + i);
	}
	uint64_t h = 1469598103934665603u ^ r ^ (uint64_t)fegetround();
	h = mix(h, &v, sizeof v), h = mix(h, &w, sizeof w), h = mix(h, &u, sizeof u), h = mix(h, &t, sizeof t);
	h = mix(h, &a, 10), h = mix(h, &b, 10), h = mix(h, &c, 10), h = mix(h, &d, 10);
	fesetround(before);
	return h;
}
