from napari_ctvqa.core.cases import Source
from napari_ctvqa.core.colours import look_of
from napari_ctvqa.core.overlay_state import Drawing, OverlayState, drawn_look


def test_hidden_structures_stay_hidden_until_shown():
    state = OverlayState().with_shown({"liver", "spleen"}, shown=False)
    assert [state.shows(name) for name in ("liver", "spleen", "aorta")] == [False, False, True]
    assert state.with_shown({"liver"}, shown=True).shows("liver")
    assert not state.with_shown({"liver"}, shown=True).shows("spleen")


def test_solo_shows_one_structure_and_goes_back_to_what_was():
    before = OverlayState(hidden=frozenset({"spleen"}))
    alone = before.with_solo("spleen")
    assert [alone.shows(name) for name in ("spleen", "liver")] == [True, False]
    assert alone.with_solo("spleen") == before
    assert alone.with_solo("liver").shows("liver")


def test_one_key_goes_through_fill_outline_and_off():
    state, seen = OverlayState(), []
    for _ in range(4):
        seen.append(state.drawing(Source.TOOL))
        state = state.with_drawing(Source.TOOL, seen[-1].after)
    assert seen == [Drawing.FILL, Drawing.OUTLINE, Drawing.OFF, Drawing.FILL]
    assert state.drawing(Source.REFERENCE) is Drawing.FILL


def test_sources_differ_without_hue_also_in_outline():
    drawn = [s for s in Source if s is not Source.ASSUMED]
    looks = [drawn_look(look_of(source), source, Drawing.OUTLINE) for source in drawn]
    assert len({look.outline for look in looks}) == len(drawn)
    assert all(look.fill == "none" and look.outline_alpha == 1 for look in looks)
    for source in drawn:
        assert drawn_look(look_of(source), source, Drawing.FILL) == look_of(source)


def test_fill_lets_the_ct_show_through():
    for source in (Source.REFERENCE, Source.TOOL):
        assert 0.25 <= look_of(source).fill_alpha <= 0.35
