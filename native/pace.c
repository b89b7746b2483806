// How dense samples are. A thread's countdown finds blocks at one interval for all of the process, so that finding them
// is cheap. Which of those are recorded is drawn for again, by site: one whose memory comes and goes gets few samples,
// one that keeps what it allocates all of them. No lock is held where a block is looked at: two threads that meet in a
// site make its numbers a little wrong, and with them how dense its samples are; an estimate takes the interval that it
// was drawn with, whatever that is.
#include "native.h"

#include <time.h>

// A site is what is known of a block before its stack is read: who called malloc, how deep the C stack is there, where
// Python is, and the size within a quarter of a power of two.
struct site {
	uint32_t tag;    // a hash of that; 0: nobody's
	int64_t held;    // bytes that its live samples stand for
	uint64_t since;  // ns, when the window began
	uint64_t turned; // bytes freed in this window, and a part of those allocated
	uint64_t before; // and in the one before
};

enum { SITES = 1 << 12, NEAR = 4 }; // a site lies at one of so many places; the first is that of all that find none
static struct site sites[SITES];

static const uint64_t window = 1000000000; // ns
static const double least_held = 1 << 20;  // bytes: a site that has only begun counts as one that keeps so much

static double base, interval, floor_interval; // bytes
static double scale;                          // bytes times √s, see mg_wanted

#define LOAD(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define STORE(x, v) __atomic_store_n(&(x), v, __ATOMIC_RELAXED)
#define SWAP(x, was, v) __atomic_compare_exchange_n(&(x), &(was), v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)

static double load(const double *at) {
	double v;
	__atomic_load(at, &v, __ATOMIC_RELAXED);
	return v;
}

static void store(double *at, double v) { __atomic_store(at, &v, __ATOMIC_RELAXED); }

double mg_interval(void) { return load(&interval); }

double mg_floor(void) { return load(&floor_interval); }

// mg_raise_floor doubles the least interval for good.
void mg_raise_floor(void) {
	store(&floor_interval, 2 * mg_floor());
	if (mg_interval() < mg_floor())
		store(&interval, mg_floor());
}

static double exponential(double x) { // of x <= 0, without libm
	double r = x / 1024, e = 1 + r * (1 + r / 2 * (1 + r / 3 * (1 + r / 4)));
	if (x < -700)
		return 0;
	for (int i = 0; i < 10; i++)
		e *= e;
	return e;
}

static double chance(double size, double each) { return 1 - exponential(-size / each); }

uint64_t mg_random(uint64_t *state) { // xorshift64*
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545F4914F6CDD1Dull;
}

// mg_survives draws for a sample once more: it stays with the probability that makes it one of a coarser interval.
bool mg_survives(uint64_t *random, uint64_t size, double drawn, double wanted) {
	double least = chance((double)size, wanted) / chance((double)size, drawn);
	return drawn >= wanted || (double)(mg_random(random) >> 11) * 0x1p-53 < least;
}

static uint64_t coarse(void) { // ns, 4 ms apart, for a fifth of what mg_now takes
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

// ---- sites

static uint32_t size_class(uint64_t size) {
	int top = 63 - __builtin_clzll(size | 4);
	return (uint32_t)(top << 2) | (size >> (top - 2) & 3);
}

// site_of gives a block's site. One that nobody came to for two windows, and that holds nothing, is another's then.
static struct site *site_of(uint32_t tag, uint64_t now) {
	for (uint32_t i = 0; i < NEAR; i++)
		if (LOAD(sites[(tag + i) % SITES].tag) == tag)
			return &sites[(tag + i) % SITES];
	for (uint32_t i = 0; i < NEAR; i++) {
		struct site *s = &sites[(tag + i) % SITES];
		uint32_t was = LOAD(s->tag);
		if (s == sites || (was && (LOAD(s->held) > 0 || (int64_t)(now - LOAD(s->since)) < 2 * (int64_t)window)))
			continue;
		if (SWAP(s->tag, was, tag)) {
			STORE(s->since, now);
			STORE(s->turned, 0);
			STORE(s->before, 0);
			return s;
		}
	}
	return sites;
}

// A site that keeps what it allocates has samples of at most this part of what it holds, whatever the cost: they become
// rarer as it grows, so that their number grows with the logarithm. With fewer, large ones what is told of it would hang
// on whether one of them was hit, and so would the error that is told.
static const double parts = 64, keeps = 2; // 2 s: what is freed in so long is less than what is held

// A block that is allocated counts as so much of one that is freed: else where all is kept nothing would bound the
// cost.
static const double kept_part = 1. / 256;

// turnover counts bytes that were allocated, and gives those of a second that come and go.
static double turnover(struct site *s, uint64_t bytes, uint64_t now) {
	uint64_t since = LOAD(s->since);
	int64_t past = (int64_t)(now - since);
	if (past > (int64_t)window && SWAP(s->since, since, now)) {
		uint64_t turned = __atomic_exchange_n(&s->turned, 0, __ATOMIC_RELAXED);
		STORE(s->before, past < 2 * (int64_t)window ? turned : 0);
		past = 0;
	}
	uint64_t turned = __atomic_add_fetch(&s->turned, (uint64_t)((double)bytes * kept_part), __ATOMIC_RELAXED);
	return (double)(LOAD(s->before) + turned) / ((double)(window + (uint64_t)(past > 0 ? past : 0)) * 1e-9);
}

// mg_site_holds counts what a site's live samples stand for: one more, or, with a sign of -1, one less.
void mg_site_holds(uint32_t site, int sign, uint64_t size, double drawn) {
	int64_t bytes = (int64_t)((double)size / chance((double)(size | 1), drawn));
	__atomic_fetch_add(&sites[site % SITES].held, sign * bytes, __ATOMIC_RELAXED);
	if (sign < 0)
		__atomic_fetch_add(&sites[site % SITES].turned, (uint64_t)bytes, __ATOMIC_RELAXED);
}

void mg_sites_reset(void) {
	for (uint32_t i = 0; i < SITES; i++)
		if (sites[i].held)
			sites[i].held = 0;
}

// ---- the countdown

// Looking at a block that a countdown found takes so long, and may take so much of the process's time: where there
// would be more of them, the interval of the countdown becomes longer. A large block, of twice the interval that was
// asked for, is found nearly always. Counted fully, large ones would make the interval long and be found all the same;
// as a quarter they have a bound too.
#define LOOK 120.          // ns; 45 with all in the caches
#define LOOKS_SHARE 0.0015 // 12,500 a second
enum { WHOLE = 4 };        // a look, in quarters
static const uint64_t looks_window = 250000000; // ns
static uint64_t looks, looks_since, looks_charged; // in quarters

static void look(uint64_t now, uint64_t quarters) {
	enum { MANY = 256 * WHOLE };
	uint64_t since = LOAD(looks_since), n = __atomic_add_fetch(&looks, quarters, __ATOMIC_RELAXED);
	int64_t past = (int64_t)(now - since);
	if ((n < MANY && past < (int64_t)looks_window) || past <= 0 || !SWAP(looks_since, since, now))
		return;
	STORE(looks, 0);
	__atomic_fetch_add(&looks_charged, n, __ATOMIC_RELAXED);
	double turn = (double)n * LOOK / WHOLE / ((double)past * LOOKS_SHARE), v = mg_interval();
	v *= turn > 4 ? 4 : turn < 1. / 16 ? 1. / 16 : turn;
	store(&interval, v < mg_floor() ? mg_floor() : v > 1e9 ? 1e9 : v);
}

// mg_wanted gives the interval of a site for a block that a countdown has found. The variance of what a site holds is
// that times its interval, and its cost what it allocates by its interval: for one cost of all the sum of variances is
// least where each interval is as the root of what is allocated by what is held. What was not freed yet is not counted
// as allocated but in part: it may stay. mg_pace sets the scale by the cost.
double mg_wanted(uint64_t size, double drawn, uint64_t caller, uint32_t *site) {
	uint64_t now = coarse();
	look(now, (double)size > 2 * base ? 1 : WHOLE);
	uint64_t depth = (uint64_t)(uintptr_t)__builtin_frame_address(0) & 0xFFFFF; // alike in threads that do alike
	uint64_t h = (caller ^ depth << 44) * 0x9E3779B97F4A7C15ull ^ mg_python_spot();
	h = (h ^ h >> 29 ^ size_class(size)) * 0xBF58476D1CE4E5B9ull;
	struct site *s = site_of((uint32_t)(h >> 32) | 1, now);
	*site = (uint32_t)(s - sites);
	double each = turnover(s, size > drawn ? size : (uint64_t)drawn, now), held = (double)LOAD(s->held);
	double most = held / parts > base ? held / parts : base, v;
	if (held < least_held)
		held = least_held;
	v = load(&scale) * __builtin_sqrt(each / held);
	return keeps * each < held && v > most ? most : v;
}

// ---- cost

// Samples may take this share of the process's time in the long run, and at the start more, since imports allocate much
// from many new places. Nothing is forgiven: what was spent too much is paid back within some seconds.
static const double share = 0.004;
#define START 60e6                              // ns
static const double part = 2e6;                 // ns that are spent before the scale is looked at
static const uint64_t patience = 500000000;     // ns, or so long
static const double memory = 2e9, payback = 5e9; // ns
static const double most_change = 16;

// A sample costs more than what is measured around it: the calls of the system at both ends, its free, and what the
// program finds no longer in the caches. With and without samples in turns in one process that was 1.3 to 1.6 times as
// much.
static const double unseen = 1.6;

// Time and not CPU time is measured: where others want the cores too, samples and the program wait in the same
// proportion, and the share holds of what the program gets of them. One sample that was interrupted may count so much,
// in ns.
static const uint64_t longest = 2000000;

// mg_pace counts what a sample took, and returns what it cost, with the looks since the last, in ns.
double mg_pace(uint64_t measured, uint64_t now) {
	static uint64_t turned;
	static double debt = -START; // below 0 is what is left of the start's
	static double spent;         // since the scale was looked at
	static double lately, time;  // what was spent, and in which time; both fade
	double cost = unseen * (double)(measured < longest ? measured : longest) +
		LOOK / WHOLE * (double)__atomic_exchange_n(&looks_charged, 0, __ATOMIC_RELAXED);
	spent += cost;
	if (turned == 0 || now < turned)
		turned = now;
	double past = (double)(now - turned);
	if (spent < part && past < (double)patience)
		return cost;
	bool starting = debt < 0;
	debt += starting ? spent : spent - share * past;
	if (debt < 0 && !starting)
		debt = 0;
	double fades = memory / (memory + past);
	lately = lately * fades + spent;
	time = time * fades + past;
	turned = now;
	spent = 0;
	if (debt < 0)
		return cost;
	double aim = share - debt / payback;
	double turn = lately / (time * (aim > share / 4 ? aim : share / 4));
	turn = turn > most_change ? most_change : turn < 1 / most_change ? 1 / most_change : turn;
	lately /= turn;
	double v = load(&scale) * turn;
	store(&scale, v < base / 64 ? base / 64 : v > 4e9 ? 4e9 : v);
	return cost;
}

void mg_pace_init(double bytes) {
	base = interval = floor_interval = bytes;
	scale = bytes / 64;
}
