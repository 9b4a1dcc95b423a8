"""The environments of predefined robots, for `gymnasium.make`.

Importing this module registers them. `import pliant` does so too if gymnasium was imported before.
Robots and compiled loops are loaded when an environment is made.

>>> import gymnasium  # doctest: +SKIP
>>> env = gymnasium.make("pliant.gymnasium:pliant/Finger-v0")  # doctest: +SKIP
"""

from pliant.core import MissingExtra

try:
    from gymnasium.envs import registration
except ImportError as error:
    raise MissingExtra("Environments need gymnasium: pip install 'pliant[learn]'.") from error

NAMES = (
    "pliant/Arm-v0",
    "pliant/Biped-v0",
    "pliant/Diamond-v0",
    "pliant/Finger-v0",
    "pliant/Swimmer-v0",
)

for _name in NAMES:
    if _name not in registration.registry:
        registration.register(
            id=_name,
            entry_point="pliant.zoo.environments:make_env",
            vector_entry_point="pliant.zoo.environments:make_vector_env",
            kwargs={"name": _name},
        )
