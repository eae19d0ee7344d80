"""Real text of several kinds, written for this project: what fidelity is measured on."""

from __future__ import annotations

PROSE = """\
The ferry left the harbour a little after six, when the lamps along the quay were still burning and the gulls had not
yet decided whether the day was worth their trouble. Marta stood at the rail with her collar up and watched the town
grow small. She had lived there for eleven years, first above the bakery and later in the narrow house behind the
school, and it surprised her how quickly it became a row of lights and then a smudge and then nothing at all. The man
beside her offered her half of his sandwich. She took it, because she had forgotten to eat, and because it is difficult
to feel tragic with a mouthful of cheese. "Going far?" he asked. "Only to the other side," she said, and they both
laughed, although neither of them could have said why.
"""

SCIENCE = """\
Plants make their own food by photosynthesis. In the leaves, a green pigment called chlorophyll absorbs light, mostly
its red and blue parts, and uses the energy to split water into hydrogen and oxygen. The oxygen leaves the leaf through
tiny openings called stomata. The hydrogen is combined with carbon dioxide from the air to make sugars, which the plant
stores as starch or burns to grow. About half of the oxygen in the atmosphere comes from algae and other small
organisms in the oceans. Temperature matters as well: most enzymes that take part in photosynthesis work best between
20 and 35 degrees Celsius, and above 40 degrees they begin to lose their shape.
"""

CODE = '''\
def merge_intervals(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge overlapping intervals and return them sorted by their start."""
    if not intervals:
        return []
    ordered = sorted(intervals)
    merged = [ordered[0]]
    for start, end in ordered[1:]:
        last_start, last_end = merged[-1]
        if start <= last_end:
            merged[-1] = (last_start, max(last_end, end))
        else:
            merged.append((start, end))
    return merged


def test_merge_intervals() -> None:
    assert merge_intervals([]) == []
    assert merge_intervals([(1, 3), (2, 6), (8, 10)]) == [(1, 6), (8, 10)]
    assert merge_intervals([(1, 4), (4, 5)]) == [(1, 5)]
'''

CHAT = """\
<|im_start|>system
You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>
<|im_start|>user
I have three apples and buy two bags with four apples each. Then I give five apples to my neighbour. How many are left?
<|im_end|>
<|im_start|>assistant
You start with 3 apples. Two bags with 4 apples each are 2 * 4 = 8 apples, so you have 3 + 8 = 11 apples. After giving
5 apples to your neighbour, you have 11 - 5 = 6 apples left.<|im_end|>
<|im_start|>user
And if I eat one every day, how long will they last?<|im_end|>
<|im_start|>assistant
If you eat one apple every day, 6 apples will last for 6 days.<|im_end|>
"""

NEWS = """\
The council voted on Tuesday evening to keep the old swimming pool open for at least two more years. Repairs to the
roof, which began to leak during the storms of last winter, are expected to cost 340,000 euros, less than half of what
a new building would need. "It is not a beautiful pool," said the mayor, Ingrid Falk, "but children learn to swim in
it, and that is what a pool is for." The vote was 17 to 12, with three members absent. Opponents of the plan argued
that the money would be better spent on the road to the industrial estate, where lorries have had to make a detour of
nine kilometres since the bridge was closed in March.
"""

PASSAGES = {"prose": PROSE, "science": SCIENCE, "code": CODE, "chat": CHAT, "news": NEWS}
