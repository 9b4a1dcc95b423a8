"""Memory of tapes that later steps use again."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import pliant as pl
from pliant.mpm.tape_memory import BlockOwner, TapeMemory


def test_a_block_is_used_again_when_its_owner_is_deleted():
    memory, owner = TapeMemory(), BlockOwner()
    first = memory.block(1000, owner)
    other = BlockOwner()
    assert memory.block(1000, other) is not first
    del owner
    assert memory.block(900, other) is first


def test_a_block_is_used_for_similar_sizes_only():
    memory, owner = TapeMemory(), BlockOwner()
    block = memory.block(1000, owner)
    del owner
    other = BlockOwner()
    assert len(memory.block(100, other)) == 100
    assert memory.free[0] is block


def test_a_block_that_is_a_little_too_small_is_replaced():
    memory, owner, other = TapeMemory(), BlockOwner(), BlockOwner()
    memory.block(1000, owner)
    del owner
    assert len(memory.block(1100, other)) == 1100
    assert not memory.free


def test_a_copy_of_the_memory_has_no_blocks():
    memory, owner = TapeMemory(), BlockOwner()
    memory.block(1000, owner)
    del owner
    assert len(memory.free) == 1
    assert not pickle.loads(pickle.dumps(memory)).free


@pytest.mark.parametrize("stored", [False, True])
def test_steps_of_a_simulation_share_their_memory(stored):
    block = pl.Robot(
        shape=pl.geometry.Rectangle(size=(0.1, 0.1)),
        material=pl.Material(E=1e4, nu=0.3),
        divisions=(2, 2),
    )
    model = pl.MaterialPoint(block, dt=0.004, cell=0.02, store_substeps=stored)
    start, u = model.initial_state(), np.zeros(0)
    steps = [model.step(start, u) for _ in range(3)]
    kept = len(model.tape_memory.free)
    assert kept == (0 if stored else 1)
    expected = steps[0].x.copy()
    del steps
    again = [model.step(start, u) for _ in range(3)]
    for step in again:
        np.testing.assert_array_equal(step.x, expected)
    del again, step
    assert len(model.tape_memory.free) == (3 if stored else 1)
    assert not replace(model).tape_memory.free
