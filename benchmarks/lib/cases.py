"""A case: rounds of ours and of its yardsticks, the order changing from round to round; ratios of the medians."""
import statistics

from lib.programs import Failed

QUARTILES_APART_MAX = 0.20


def quartiles(values):
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def summarize(values):
    low, high = quartiles(values)
    return {"median": statistics.median(values), "q1": low, "q3": high, "values": values}


def ratio_of(ours, yardstick):
    return {"ratio": ours["median"] / yardstick["median"], "yardstick": yardstick,
            "apart": (yardstick["q3"] - yardstick["q1"]) / yardstick["median"]}


def judge(case):
    """Why the case is INVALID, or nothing."""
    for name, against in case["against"].items():
        if against["apart"] > QUARTILES_APART_MAX:
            return f"{name}'s quartiles are {against['apart']:.0%} apart"
    return ""


def finish(case, ours, yardsticks):
    case["ours"] = summarize(ours)
    case["against"] = {name: ratio_of(case["ours"], summarize(values)) for name, values in yardsticks.items()}
    case["invalid"] = judge(case)
    return case


def failed(case, failure):
    case.update(invalid=str(failure), failed=True, against={})
    return case


def interleave(case, sides, rounds):
    """`sides`: name -> a call that measures once; "ours" and the yardsticks. The first call is a warm-up of the
    page cache and of nothing else: every program warms up by itself."""
    values = {name: [] for name in sides}
    order = list(sides)
    try:
        for number in range(rounds):
            for name in order if number % 2 == 0 else reversed(order):
                values[name].append(sides[name]())
    except Failed as failure:
        return failed(case, failure)
    return finish(case, values.pop("ours"), values)
