"""How many examples Hypothesis tries: the same in each run, ten times as many in `make soak`."""

from hypothesis import Phase, settings

_EXAMPLES = 100
settings.register_profile("steady", derandomize=True, deadline=None, max_examples=_EXAMPLES)
settings.register_profile("search", deadline=None, max_examples=10 * _EXAMPLES)
# Where it matters only whether one fails, not which: `make mutants`.
settings.register_profile(
    "first", settings.get_profile("steady"), phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("steady")


def examples(times: float) -> settings:
    default = settings.get_profile(settings.get_current_profile_name())
    return settings(max_examples=round(times * default.max_examples))
