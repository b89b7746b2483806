package analyse

import (
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/judge/detect"
)

// TestBoundsInSource: the line that adds to kept is the one that appends.
func TestBoundsInSource(t *testing.T) {
	bounded := func(n float64) detect.Bound { return detect.Bound{Kind: detect.Bounded, Items: n} }
	none, free := detect.Bound{}, detect.Bound{Kind: detect.Unbounded}
	for text, want := range map[string]detect.Bound{
		"N = 300\ndef f():\n if len(self.kept) < N:\n  self.kept.append(x)":                          bounded(300),
		"def f():\n if len(kept) < 9:\n  kept.append(x)\n else:\n  kept[i] = x  # HERE":              bounded(9),
		"def f():\n if len(kept) < 9:\n  kept.append(x)\ndef g():\n kept.append(x) # HERE":           none,
		"def f():\n if a:\n  if len(kept) < 7:\n   for x in y:\n    kept.append(x)":                  bounded(7),
		"def f():\n if len(kept) >= 50:\n  return\n kept.append(x)":                                  bounded(50),
		"def f():\n kept.append(x)\n if len(kept) > self.most:\n  kept.pop(0)":                       bounded(0),
		"def f():\n kept.append(x)\n if len(kept) > 9:\n  kept = kept[-9:]":                          bounded(9),
		"def f():\n kept.append(x)\n if len(kept) == 32:\n  write(kept)\n  kept = []":                bounded(32),
		"def f():\n kept.append(x)\n while len(kept) > 9:\n  del kept[0]":                            bounded(9),
		"def f():\n kept.append(x)\n if len(kept) > 9:\n  print(sum(kept[-9:]))":                     none,
		"def f():\n while len(kept) < 10 * (time() - begin):\n  kept.append(x)":                      none,
		"def f():\n if len(kept) < 2 * self.most and ready:\n  kept.append(x)":                       bounded(0),
		"def f():\n if (len(kept) < 9 or new) and len(other) < f(x):\n  kept.append(x)":              bounded(9),
		"def f():\n kept.append(x)\n del self.kept[self.size:]":                                      bounded(0),
		"def f():\n kept.append(x)\n del kept[:-20]":                                                 bounded(20),
		"def f():\n kept.append(x)\n self.kept = self.kept[-7:] + [y]":                               bounded(7),
		"def f():\n kept.append(x)\n kept.sort()\n kept = kept[:BEST]\nBEST = 5":                     bounded(5),
		"def f():\n kept.append(x)\n del kept[:5]\n last = kept[-7:]":                                none,
		"def f():\n kept[self.i] = x\n self.i = (self.i + 1) % self.size\nsize = 40":                 bounded(40),
		"def f():\n kept[i] = x\n i = i % 7\ndef g():\n kept[x.name] = 3":                            none,
		"def f():\n kept[self.i] = x\n self.i += 1\n if self.i % 100 == 0:\n  print(x)":              none,
		"def f():\n if len(other) < 9:\n  kept.append(x)":                                            none,
		"def f():\n if len(kept) < 9:\n  print(1)\n kept.append(x)":                                  none,
		"def g():\n if len(kept) >= 9:\n  return\ndef f():\n kept.append(x)":                         none,
		"def f():\n kept.append(x)\n kept = self.kept[-7:]":                                          none,
		"def f():\n kept.append(x)\n a.kept = a.kept[-7:]":                                           bounded(7),
		"def f():\n kept.append(x)\n b.append(x)\ndef g():\n if len(b) < 9:\n  a.f()":                bounded(0),
		"def f():\n kept.append(x)\n b.append(x)\ndef g():\n if len(c) < 9:\n  a.f()":                none,
		"def f():\n kept.append(x)\n b.append(x)\nf()\ndef g():\n if len(b) < 9:\n  f()":             none,
		"def f():\n if self.n < self.size:\n  self.kept.append(x)\n  self.n += 1\nsize = 70":         bounded(70),
		"def f():\n if self.n < self.size:\n  self.kept[self.n] = x # HERE\n  self.n += 1":           bounded(0),
		"def f():\n if self.size > self.n:\n  kept.append(x)\n  self.n += 1":                         bounded(0),
		"def f():\n if self.n >= 80:\n  return\n kept.append(x)\n self.n += 1":                       bounded(80),
		"def f():\n if self.n < self.size:\n  kept.append(x)\n self.n += 1":                          none,
		"def f():\n if n < size:\n  kept.append(x)\n  n += 1\ndef g():\n size *= 2":                  none,
		"def f():\n while step < steps:\n  kept.append(x)\n  step += 1":                              none,
		"def f():\n for x in y:\n  if step >= steps:\n   break\n  kept.append(x)\n  step += 1":       none,
		"def f():\n for x in y:\n  if n >= 9:\n   continue\n  kept.append(x)\n  n += 1":              bounded(9),
		"def f():\n while step < steps:\n  if n < 9:\n   kept.append(x)\n   n += 1\n  step += 1":     bounded(9),
		"def f():\n if n < self.grow():\n  kept.append(x)\n  n += 1":                                 none,
		"def f():\n if loss < best:\n  kept.append(x)\n  n += 1":                                     none,
		"def f():\n kept.append(x)\n if len(kept) > 30:\n  self.evict()\ndef evict():\n del kept[0]": bounded(30),
		"def f():\n kept.append(x)\n if len(kept) > 30:\n  self.tell()\ndef tell():\n print(kept)":   none,
		"def f():\n if len(kept) < 10**15:\n  kept.append(x)":                                        free,
		"def f():\n if len(kept) < MOST:\n  kept.append(x)\nMOST = 1e15":                             free,
		"def f():\n kept.append(x)\n if len(kept) > 1 << 40:\n  kept.pop(0)":                         free,
		"def f():\n if len(kept) < MOST:\n  kept.append(x)\nMOST = 4 * 1_000":                        bounded(4000),
		"@functools.lru_cache(maxsize=600)\ndef kept(x):\n return x":                                 bounded(600),
		"@lru_cache(typed=True, maxsize=600)\ndef kept(x):\n return x":                               bounded(600),
		"@lru_cache\ndef kept(x):\n return x":                                                        bounded(128),
		"@lru_cache(maxsize=None)\n@other\ndef kept(x):\n return x":                                  free,
		"@functools.cache\ndef kept(x):\n return x":                                                  free,
		"@lru_cache(maxsize=SIZE)\ndef kept(x):\n return x\nSIZE = 1_000\nSIZES = 3\n":               bounded(1000),
	} {
		lines, line := strings.Split(text, "\n"), 0
		for i, code := range lines {
			if strings.Contains(code, "# HERE") || line == 0 && strings.Contains(code, "kept.append") {
				line = i + 1
			}
		}
		if got := parse(lines).boundOf("kept", line); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

// TestBoundsOfHostileSource holds the questions about a source to their bound: for each of these lines the test is
// looked for above all the others.
func TestBoundsOfHostileSource(t *testing.T) {
	o := parse(strings.Split("def f():\n if len(kept) > 1:\n  pass\n"+strings.Repeat(" kept.append(x)\n", 20_000)+
		" f()\n"+strings.Repeat("f()\n", 20_000), "\n"))
	o.boundOf("kept", 3)
	s := &Sources{files: map[string]*outline{"": o}}
	if over := o.looks - mostLooks; over < 0 || over > mostLooks/10 || !s.tooMany() {
		t.Errorf("%d looks", o.looks)
	}
}
