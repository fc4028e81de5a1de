"""The command: quickstart, predict on pictures of every kind, bad input, info."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import lamella as lm
from lamella.cli import main, quickstart
from lamella.cli.canvas import Canvas, png_bytes
from lamella.cli.digits import DigitNet, load_model, vary
from lamella.cli.font import glyph
from lamella.cli.picture import load_grey, to_digit
from lamella.cli.predict import probabilities
from lamella.cli.progress import Progress
from lamella.data import digits
from lamella.errors import FileFormatError

image = pytest.importorskip("PIL.Image", reason="pillow is not installed")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the quickstart has run for a few epochs."""
    folder = tmp_path_factory.mktemp("quickstart")
    assert quickstart.run(quickstart.Recipe(epochs=5), folder) == 0
    return folder


def large(digit: np.ndarray, side: int = 200, margin: int = 40) -> np.ndarray:
    """A digit as a smooth grey picture, uint8, dark on white."""
    picture = image.fromarray((255 * (1 - digit)).astype(np.uint8)).resize(
        (side, side), image.Resampling.BICUBIC
    )
    return np.pad(np.asarray(picture), margin, constant_values=255)


def test_quickstart_writes_a_model_and_a_picture(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = load_model(str(trained / "digits.safetensors"))
    images, labels = digits().test
    with lm.no_grad():
        guesses = model(lm.asarray(images)).numpy().argmax(1)
    assert (guesses == labels).mean() > 0.95
    with image.open(trained / "digits.png") as picture:
        assert picture.size == (940, 560)
        assert len(np.unique(np.asarray(picture))) > 5


def test_quickstart_prints_progress_matrix_and_accuracy_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["quickstart", "--epochs", "1", "--out", str(tmp_path / "new"), "--batch-size", "128"])
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[0]
        == "UCI handwritten digits, 8×8: 1265 / 177 / 355 images to train / validate / test"
    )
    assert re.fullmatch(
        r"epoch  1/1  loss \d\.\d{3}  accuracy [01]\.\d{3}  "
        r"validation [01]\.\d{3}  [\d,]+ examples/s",
        lines[1],
    )
    assert re.fullmatch(r"test accuracy: [01]\.\d{4}", lines[-1])
    rows = [line.split()[1:] for line in lines[-12:-2]]
    assert sum(int(count) for row in rows for count in row if count != ".") == 355
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == [
        "digits.png",
        "digits.safetensors",
    ]


@pytest.mark.slow
@pytest.mark.skipif(lm.config.backend == "interpret", reason="minutes per seed")
@pytest.mark.parametrize("seed", range(5))
def test_quickstart_reads_985_of_1000(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["quickstart", "--seed", str(seed), "--out", str(tmp_path)]) == 0
    assert float(capsys.readouterr().out.split()[-1]) >= 0.985


def test_interrupt_keeps_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    epoch = quickstart.Trainer.epoch

    def interrupted(self: quickstart.Trainer, number: int) -> None:
        if number == 2:
            raise KeyboardInterrupt
        epoch(self, number)

    monkeypatch.setattr(quickstart.Trainer, "epoch", interrupted)
    assert main(["quickstart", "--epochs", "3", "--out", str(tmp_path)]) == 130
    assert "digits.safetensors holds the model of epoch 1" in capsys.readouterr().out
    assert isinstance(load_model(str(tmp_path / "digits.safetensors")), DigitNet)
    monkeypatch.setattr(quickstart.Trainer, "epoch", lambda self, number: interrupted(self, 2))
    assert main(["quickstart", "--out", str(tmp_path / "b")]) == 130
    assert "nothing is saved" in capsys.readouterr().out
    assert not list((tmp_path / "b").iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="sends a POSIX signal")
def test_a_real_interrupt_ends_cleanly(tmp_path: Path, root: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "lamella",
        "quickstart",
        "--epochs",
        "10000",
        "--out",
        str(tmp_path),
    ]
    process = subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 120
        while not (tmp_path / "digits.safetensors").exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "holds the model of epoch" in out
    load_model(str(tmp_path / "digits.safetensors"))


def test_predict_prints_digit_and_probabilities(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images, labels = digits().train
    picture = tmp_path / "seven.png"
    image.fromarray(large(images[np.flatnonzero(labels == 7)[0], 0])).save(picture)
    assert main(["predict", str(trained / "digits.safetensors"), str(picture)]) == 0
    text = capsys.readouterr().out
    assert "digit: 7" in text
    shares = [
        float(line.split()[1]) for line in text.splitlines() if re.match(r"\d  0|\d  1", line)
    ]
    assert len(shares) == 10
    assert sum(shares) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    "kind",
    [
        "dark on light",
        "light on dark",
        "colour",
        "off centre",
        "small",
        "wide",
        "alpha",
        "16 bit",
        "jpeg",
    ],
)
def test_predict_reads_pictures_of_every_kind(trained: Path, tmp_path: Path, kind: str) -> None:
    model = load_model(str(trained / "digits.safetensors"))
    images, labels = digits().test
    path = tmp_path / ("a.jpg" if kind == "jpeg" else "a.png")
    right = 0
    for digit, label in zip(images[:50, 0], labels[:50], strict=True):
        picture = large(digit, 24, 4) if kind == "small" else large(digit)
        made = image.fromarray(picture)
        if kind == "light on dark":
            made = image.fromarray(255 - picture)
        elif kind == "colour":
            mixed = picture[..., None] / 255 * [250, 240, 200] + (1 - picture[..., None] / 255) * [
                20,
                20,
                120,
            ]
            made = image.fromarray(mixed.astype(np.uint8))
        elif kind == "off centre":
            made = image.fromarray(np.pad(picture, ((300, 10), (5, 400)), constant_values=255))
        elif kind == "wide":
            made = image.fromarray(np.pad(picture, ((0, 0), (900, 900)), constant_values=255))
        elif kind == "alpha":
            made = image.fromarray(np.stack([np.zeros_like(picture)] * 3 + [255 - picture], -1))
        elif kind == "16 bit":
            made = image.fromarray(picture.astype(np.uint16) * 257)
        made.save(path)
        right += int(probabilities(model, to_digit(load_grey(str(path)))).argmax()) == label
    assert right >= 44


@pytest.mark.parametrize("digit", [0, 1, 4, 7])
@pytest.mark.parametrize("pen", [6, 10, 22])
def test_predict_reads_thin_and_thick_pens(trained: Path, digit: int, pen: int) -> None:
    draw_module = pytest.importorskip("PIL.ImageDraw")
    strokes = {
        0: [
            [
                (110, 40),
                (70, 70),
                (60, 120),
                (70, 170),
                (110, 200),
                (150, 170),
                (160, 120),
                (150, 70),
                (110, 40),
            ]
        ],
        1: [[(80, 80), (115, 40), (115, 200)]],
        4: [[(100, 40), (60, 130), (165, 130)], [(140, 60), (135, 200)]],
        7: [[(65, 45), (160, 45), (100, 200)], [(80, 125), (145, 125)]],
    }
    picture = image.new("L", (220, 240), 255)
    pencil = draw_module.Draw(picture)
    for stroke in strokes[digit]:
        pencil.line(stroke, fill=0, width=pen, joint="curve")
    model = load_model(str(trained / "digits.safetensors"))
    shares = probabilities(model, to_digit(np.asarray(picture) / 255.0))
    assert shares.argmax() == digit


def test_to_digit_has_the_weight_of_the_training_images() -> None:
    for side, bar in [(60, 2), (60, 20), (400, 8)]:
        picture = np.ones((side, side))
        picture[side // 5 : -side // 5, side // 2 - bar // 2 : side // 2 + bar // 2] = 0
        digit = to_digit(picture)
        assert digit.shape == (8, 8)
        assert digit.min() >= 0
        assert digit.max() <= 1
        assert digit.mean() == pytest.approx(0.305, abs=0.05)
        np.testing.assert_allclose(digit, to_digit(1 - picture))


def _bad_files(folder: Path, model: Path) -> dict[str, tuple[str, str, str]]:
    """Name to model path, picture path and words of the message."""
    good = folder / "good.png"
    image.fromarray(large(digits().test[0][0, 0])).save(good)
    (folder / "text.png").write_text("no picture")
    (folder / "cut.png").write_bytes(good.read_bytes()[:300])
    image.new("L", (50, 50), 255).save(folder / "plain.png")
    image.new("L", (1, 1), 0).save(folder / "dot.png")
    (folder / "bad.safetensors").write_bytes(b"\0" * 20)
    (folder / "cut.safetensors").write_bytes(model.read_bytes()[:5000])
    lm.save({"a": np.ones(2)}, folder / "other.safetensors")
    lm.save({"a": np.ones(2)}, folder / "unfit.safetensors", metadata={"kind": "lamella-digits-1"})
    return {
        "no model": (str(folder / "none"), str(good), "No such file"),
        "folder": (str(folder), str(good), "directory"),
        "bad model": (str(folder / "bad.safetensors"), str(good), "bad.safetensors"),
        "cut model": (str(folder / "cut.safetensors"), str(good), "cut.safetensors"),
        "other model": (str(folder / "other.safetensors"), str(good), "no model of the quickstart"),
        "unfit model": (str(folder / "unfit.safetensors"), str(good), "does not fit"),
        "no picture": (str(model), str(folder / "none.png"), "No such file"),
        "text": (str(model), str(folder / "text.png"), "no picture that can be read"),
        "cut picture": (str(model), str(folder / "cut.png"), "cut.png"),
        "plain": (str(model), str(folder / "plain.png"), "shows no digit"),
        "dot": (str(model), str(folder / "dot.png"), "shows no digit"),
    }


def test_bad_files_are_one_line_and_code_2(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, (model, picture, words) in _bad_files(
        tmp_path, trained / "digits.safetensors"
    ).items():
        assert main(["predict", model, picture]) == 2, name
        captured = capsys.readouterr()
        assert captured.out == "", name
        assert captured.err.count("\n") == 1, name
        assert words in captured.err, name
        assert captured.err.startswith("lamella predict: ")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["quikstart"],
        ["quickstart", "--epochs", "0"],
        ["quickstart", "--batch-size", "1"],
        ["predict"],
    ],
)
def test_bad_arguments_end_with_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "lamella" in capsys.readouterr().err


def test_output_folder_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["quickstart", "--out", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    facts = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert facts["lamella"] == lm.__version__
    assert int(facts["threads"]) == lm.num_threads()
    assert {
        "python",
        "numpy",
        "llvmlite",
        "processor",
        "features",
        "cache",
        "devices",
    } <= facts.keys()


def test_png_and_canvas(tmp_path: Path) -> None:
    canvas = Canvas(20, 30)
    canvas.rectangle(2, 3, 5, 9, (10, 20, 30))
    canvas.line((0, 0), (19, 29), (200, 0, 0))
    canvas.line((-50, -50), (100, 100), (0, 0, 200))
    canvas.text(-3, 25, "OUT")
    canvas.image(10, 0, np.eye(2), 3)
    canvas.save(tmp_path / "a.png")
    with image.open(tmp_path / "a.png") as found:
        assert np.array_equal(np.asarray(found), canvas.pixels)
    noise = np.random.default_rng(0).integers(0, 256, (7, 5, 3), np.uint8)
    (tmp_path / "b.png").write_bytes(png_bytes(noise))
    with image.open(tmp_path / "b.png") as found:
        assert np.array_equal(np.asarray(found), noise)


def test_font_tells_characters_apart() -> None:
    shapes = {
        character: glyph(character).tobytes()
        for character in "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:%->/+×·²_'"
    }
    assert len(set(shapes.values())) == len(shapes)
    assert np.array_equal(glyph("a"), glyph("A"))
    assert np.array_equal(glyph("€"), glyph("?"))


def test_variation_is_small_and_repeats() -> None:
    images = digits().train[0][:100]
    first, again = (vary(images, np.random.default_rng(1)) for _ in range(2))
    assert np.array_equal(first, again)
    assert first.shape == images.shape
    assert first.dtype == np.float32
    assert first.min() >= 0
    assert first.max() <= 1
    assert 0.01 < np.abs(first - images).mean() < 0.15
    still = vary(np.zeros_like(images), np.random.default_rng(1))
    assert not still.any()


def test_progress_on_a_terminal() -> None:
    class Terminal:
        text = ""

        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> None:
            self.text += text

        def flush(self) -> None:
            return

    out = Terminal()
    bar = Progress(4, "epoch 1/1", out)  # type: ignore[arg-type]
    bar.advance("loss 1")
    bar.finish("loss 0")
    assert "━━━━━━╌" in out.text
    assert out.text.endswith("epoch 1/1  loss 0\n")


def test_pictures_too_large_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image.new("1", (400, 400)).save(tmp_path / "a.png")
    monkeypatch.setattr(image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(FileFormatError, match="too many pixels"):
        load_grey(str(tmp_path / "a.png"))


def test_without_pillow_the_extra_is_named(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert main(["predict", str(trained / "digits.safetensors"), "a.png"]) == 2
    assert "lamella[vision]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--seed", "-5", "-5 is negative"),
        ("--seed", "x", "'x' is no whole number"),
        ("--epochs", "x", "'x' is no whole number"),
        ("--epochs", "0", "not at least 1"),
        ("--batch-size", "2.5", "'2.5' is no whole number"),
    ],
)
def test_options_of_a_wrong_kind_are_one_line(
    option: str, value: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["quickstart", option, value])
    assert stopped.value.code == 2 and words in capsys.readouterr().err


def test_bench_lists_its_workloads_and_refuses_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--list"]) == 0
    assert "softmax" in capsys.readouterr().out.split()
    with pytest.raises(SystemExit):
        main(["bench", "no_such_workload"])
