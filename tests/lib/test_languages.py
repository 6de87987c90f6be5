"""Whether notes are in English: prose, lists and code, in many languages."""

from __future__ import annotations

import pytest

from fusion.home import config_root
from fusion.lib.languages import is_foreign

FOREIGN = {
    "German": (
        "Wir haben am Dienstag beschlossen, die Datenbank zu wechseln, weil sich die Schreiber gegenseitig "
        "blockieren und der Server bei jeder Sicherung steht. Julia kümmert sich um den Umzug, und ich "
        "schreibe die Anleitung für das Team. Das kostet 190 Kronen im Monat."
    ),
    "French": (
        "Nous avons décidé mardi de changer la base de données, parce que les écritures se bloquent et que "
        "le serveur s'arrête à chaque sauvegarde. Julie s'occupe du déménagement, et je rédige le guide pour "
        "une équipe qui est dans un autre bureau avec des horaires différents."
    ),
    "Spanish": (
        "El martes decidimos cambiar la base de datos, porque los procesos se bloquean y el servidor se para "
        "con cada copia de seguridad. Julia se encarga de la mudanza, y yo escribo la guía para el equipo "
        "que está en otra oficina con horarios diferentes."
    ),
    "Swedish": (
        "På tisdagen bestämde vi att byta databas, eftersom skrivningarna blockerar varandra och servern "
        "står stilla vid varje säkerhetskopia. Julia tar hand om flytten, och jag skriver anvisningen för "
        "det team som inte är på plats och som arbetar med kunderna."
    ),
    "Polish": (
        "We wtorek zdecydowaliśmy się zmienić bazę danych, bo zapisy się blokują i serwer nie działa przy "
        "każdej kopii. Julia zajmuje się przeprowadzką, a ja piszę instrukcję, bo zespół nie jest na miejscu "
        "i nie ma czasu na to, że tak jest zawsze w każdy wtorek."
    ),
    "Russian": (
        "Во вторник мы решили сменить базу данных, потому что записи блокируют друг друга, и сервер стоит "
        "при каждой копии."
    ),
    "Chinese": (
        "我们上周二决定更换数据库,因为写入操作会互相阻塞,而且服务器每次备份都会停止。尤利娅负责迁移工作,我为"
        "团队编写操作指南,团队在另一个办公室,工作时间不同。我们还讨论了费用,每月一百九十克朗,大家都同意了这个"
        "方案,下个月开始执行。"
    ),
    "Japanese": (
        "先週の火曜日にデータベースを変更することを決めました。書き込みが互いにブロックし、バックアップのたび"
        "にサーバーが止まるからです。ジュリアが移行を担当し、私はチームのための手順書を書きます。"
    ),
}
ENGLISH = {
    "prose": (
        "On Tuesday we decided to change the database, because the writers block each other and the server "
        "stops with each backup. Julia takes care of the move, and I write the guide for the team, which is "
        "in another office and has other hours than we do."
    ),
    "a terse list": "- milk\n- call Anna Müller about El Camino tickets\n- fix CI\n- Los Angeles: book La Playa\n" * 8,
    "code": "def main(args):\n    for path in args.paths:\n        print(path.read_text())\n    return None\n" * 10,
    "with a quotation": (
        "We saw the sign: «Вход воспрещён». It was on the door of the house that we had rented for the week, "
        "and nobody had said what it meant, so we went in and asked the man at the desk if that was all "
        "right with him."
    ),
    "short": "Wir sind da.",
    "empty": "",
    "numbers": "17 23 42 1,000 2026-11-22 " * 40,
}


@pytest.mark.parametrize("language", FOREIGN)
def test_another_language_is_recognised(language: str) -> None:
    assert is_foreign(FOREIGN[language])


@pytest.mark.parametrize("kind", ENGLISH)
def test_english_lists_and_code_are_not_foreign(kind: str) -> None:
    assert not is_foreign(ENGLISH[kind])


def test_the_sample_notes_are_english() -> None:
    """Each file of the sample workspace, alone and together; there are foreign names in them."""
    texts = [file.read_text(encoding="utf-8") for file in (config_root() / "sample" / "workspace").rglob("*.md")]
    assert len(texts) > 10
    assert [text[:60] for text in [*texts, "\n".join(texts)] if is_foreign(text)] == []
