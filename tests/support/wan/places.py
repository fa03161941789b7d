#!/usr/bin/env python3
"""Writes the matrices in this directory: peers in data centres of North America, Europe and both.
Nothing in them was measured.

    places.py           writes the matrices
    places.py --check   prints the necessary changes, and exits with status 1 if there are any

Places are towns with such data centres, with the coordinates of the towns. The one-way delay is
that of light in fibre (two thirds of its speed in vacuum) over 1.5 times the great circle, because
no cable is straight, and 1 ms for both ends:

    delay_ms = 1 + 1.5 * great_circle_km / (2/3 * 299.792 km/ms)

Rates are random, independently for each direction of a pair, between a minimum and a maximum, such
that half of them are below their geometric mean. A host's total rate per direction is drawn between
one and two times the maximum. The rates are low enough for two processor cores to run all hosts and
the relay, and uneven enough that the choice of peers matters."""

import json
import math
import random
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
EARTH_KM = 6371.0
LIGHT_KM_MS = 299.792458
FIBRE, DETOUR, ENDS_MS = 2 / 3, 1.5, 1.0
QUEUE_MS = 100

PLACES = {                  # name: (place, latitude, longitude)
    "dalles": ("The Dalles, Oregon", 45.59, -121.18),
    "dallas": ("Dallas, Texas", 32.78, -96.80),
    "moncks": ("Moncks Corner, South Carolina", 33.20, -80.01),
    "bluffs": ("Council Bluffs, Iowa", 41.26, -95.86),
    "ashburn": ("Ashburn, Virginia", 39.04, -77.49),
    "montreal": ("Montreal, Quebec", 45.50, -73.57),
    "toronto": ("Toronto, Ontario", 43.65, -79.38),
    "frankfurt": ("Frankfurt", 50.11, 8.68),
    "paris": ("Paris", 48.86, 2.35),
    "ghislain": ("Saint-Ghislain", 50.45, 3.82),
    "london": ("London", 51.51, -0.13),
    "eemshaven": ("Eemshaven", 53.44, 6.83),
}
EUROPE = ["frankfurt", "frankfurt", "paris", "ghislain", "london", "eemshaven"]
NORTH_AMERICA = [*(place for place in ("dalles", "dallas", "moncks", "bluffs", "ashburn")
                   for _ in range(2)), "montreal", "toronto"]
# name: (title, places of its hosts, minimum and maximum Mbit/s of a pair, seed)
DEPLOYMENTS = {
    "europe-6": ("6 peers in Europe", EUROPE, 40, 320, 6),
    "north-america-12": ("12 peers in North America", NORTH_AMERICA, 15, 120, 12),
    "both-18": ("18 peers in North America and Europe", NORTH_AMERICA + EUROPE, 10, 80, 18),
}


def great_circle_km(a, b):
    """Between two (latitude, longitude) in degrees, by the haversine formula."""
    (lat_a, lon_a), (lat_b, lon_b) = ((math.radians(x), math.radians(y)) for x, y in (a, b))
    h = (math.sin((lat_b - lat_a) / 2) ** 2
         + math.cos(lat_a) * math.cos(lat_b) * math.sin((lon_b - lon_a) / 2) ** 2)
    return 2 * EARTH_KM * math.asin(math.sqrt(h))


def delay_ms(a, b):
    return round(ENDS_MS
                 + DETOUR * great_circle_km(PLACES[a][1:], PLACES[b][1:]) / (FIBRE * LIGHT_KM_MS),
                 1)


def names_of(places):
    """Names of hosts: paris; with two in one place, frankfurt1 and frankfurt2."""
    return [place + (str(places[:i].count(place) + 1) if places.count(place) > 1 else "")
            for i, place in enumerate(places)]


def matrix_of(title, places, least, most, seed):
    draw = random.Random(seed)
    n = len(places)
    hosts = []
    for name, place in zip(names_of(places), places):
        town, latitude, longitude = PLACES[place]
        hosts.append({"name": name, "place": town, "latitude": latitude, "longitude": longitude,
                      "up_mbit": round(most * (1 + draw.random())),
                      "down_mbit": round(most * (1 + draw.random()))})
    rates = [[0 if a == b else round(least * (most / least) ** draw.random(), 1) for b in range(n)]
             for a in range(n)]
    delays = [[0 if a == b else delay_ms(places[a], places[b]) for b in range(n)] for a in range(n)]
    return {"about": f"{title}. Assumed, not measured: delays from great circles, rates drawn with "
                     f"seed {seed}. places.py generated this, and describes how.",
            "hosts": hosts, "delay_ms": delays, "rate_mbit": rates, "loss": 0, "queue_ms": QUEUE_MS,
            "seed": seed}


def text_of(matrix):
    """JSON with one line per host and per row."""
    def value(v):
        if isinstance(v, list):
            return "[\n" + ",\n".join("        " + json.dumps(row) for row in v) + "\n    ]"
        return json.dumps(v)
    return "{\n" + ",\n".join(f"    {json.dumps(key)}: {value(v)}"
                              for key, v in matrix.items()) + "\n}\n"


def main(argv):
    if argv not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 0 if argv == ["--help"] else 2
    changes = 0
    for name, how in DEPLOYMENTS.items():
        path, text = HERE / f"{name}.json", text_of(matrix_of(*how))
        if path.exists() and path.read_text() == text:
            continue
        changes += 1
        if argv:
            print(f"{path.name} is not what places.py makes")
        else:
            path.write_text(text)
            print(f"wrote {path.name}")
    return 1 if argv and changes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
