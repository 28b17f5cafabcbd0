"""Record FrozenLake-v1 from the real gymnasium as golden data for the Go tests.

    python -m venv /tmp/gym && /tmp/gym/bin/pip install gymnasium==1.4.0
    /tmp/gym/bin/python record.py > gymnasium.json

The output holds, for several maps and kinds of ice, the transition table and
rollouts under a random policy with the time limit that gymnasium.make sets.
A rollout carries the uniform numbers that its environment drew, so that
another implementation can be fed the same ones and must agree exactly.
"""

import json
import random

import gymnasium

MAPS = {
    "4x4": {"map_name": "4x4"},
    "8x8": {"map_name": "8x8"},
    "wide": {"desc": ["SFFHF", "FHFFF", "FFFHG"]},
    "two goals": {"desc": ["GFS", "FHF", "SFG"]},
}
ICE = {
    "solid": {"is_slippery": False},
    "slippery": {"is_slippery": True},
    "success 0.75": {"is_slippery": True, "success_rate": 0.75},
    "success 0.8, rewards": {"is_slippery": True, "success_rate": 0.8, "reward_schedule": (10, -2, -0.5)},
}


class Recorder:
    """Stands in for the environment's generator and keeps what it drew."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.drawn = []

    def random(self):
        self.drawn.append(self.rng.random())
        return self.drawn[-1]


def table(env):
    """Transitions [state][action] -> list of [probability, state, reward, done]."""
    p = env.unwrapped.P
    return [[[list(map(plain, t)) for t in p[s][a]] for a in range(4)] for s in range(len(p))]


def plain(x):
    return x if isinstance(x, (bool, float)) else int(x)


def rollout(env, seed):
    """Steps [action, uniform drawn, state, reward, terminated, truncated]."""
    policy = random.Random(1000 + seed)
    draws = env.unwrapped._np_random = Recorder(seed)
    start, _ = env.reset()
    steps, done = [], False
    while not done:
        action = policy.randrange(4)
        state, reward, terminated, truncated, _ = env.step(action)
        steps.append([action, draws.drawn[-1], int(state), plain(reward), bool(terminated), bool(truncated)])
        done = terminated or truncated
    return {"start": int(start), "steps": steps}


def main():
    cases = []
    for map_name, map_args in MAPS.items():
        for ice_name, ice_args in ICE.items():
            name = "FrozenLake8x8-v1" if map_name == "8x8" else "FrozenLake-v1"
            env = gymnasium.make(name, **map_args, **ice_args)
            args = {
                "map": map_args.get("desc", map_name),
                "slippery": ice_args["is_slippery"],
                "success_rate": ice_args.get("success_rate", 1 / 3),
                "reward_schedule": ice_args.get("reward_schedule", (1, 0, 0)),
            }
            rollouts = [rollout(env, seed) for seed in range(6)]
            cases.append({"name": f"{map_name}, {ice_name}", "params": args, "table": table(env), "rollouts": rollouts})
    # One line a case: small enough to keep, and a change shows where it is.
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    print(f'{{"gymnasium":"{gymnasium.__version__}","cases":[\n{lines}\n]}}')


main()
