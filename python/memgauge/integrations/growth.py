"""How fast a few readings grow: Theil and Sen's line with Sen's interval, in plain Python. For tests, which have a
limit to compare with; verdicts on trainings are the command's (docs/detect.md)."""

NORMAL_95 = 1.96


class Line:
    """slope and its interval of 95 %, in the unit of ys by that of xs."""

    def __init__(self, xs, ys):
        slopes = sorted((ys[j] - ys[i]) / (xs[j] - xs[i]) for i in range(len(xs)) for j in range(i + 1, len(xs)))
        n, count = len(xs), len(slopes)
        self.slope = (slopes[(count - 1) // 2] + slopes[count // 2]) / 2
        # Kendall's variance of the number of rising pairs tells how many slopes lie in the interval (Sen 1968)
        half = NORMAL_95 * (n * (n - 1) * (2 * n + 5) / 18) ** 0.5 / 2
        self.low = slopes[max(0, int(count / 2 - half))]
        self.high = slopes[min(count - 1, int(count / 2 + half + 0.5))]


def beyond(xs, ys, limit):
    """Returns the line if it surely grows faster than the limit, also in the younger half; else None. Growth that only
    fills a cache has stopped by then. limit: in the unit of ys by that of xs."""
    if len(xs) < 8:
        return None
    line, late = Line(xs, ys), Line(xs[len(xs) // 2:], ys[len(ys) // 2:])
    return line if line.low > limit and late.slope > limit else None
