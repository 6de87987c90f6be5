"""Function words and common verbs that tell what a prompt is: English, German, French, Spanish and Italian.

The sets are of word classes, not of sentences. Words are in the form of `fusion.lib.words.normalise`, without accents.
A word that means something else in another of the languages ("die", "come", "son") is in no set.
"""

from __future__ import annotations


def _set(*languages: str) -> frozenset[str]:
    return frozenset(word for words in languages for word in words.split())


QUESTION = _set(
    "what which who whom whose when where why how whats whos wheres",
    "welche welcher welches welchen welchem wer wen wem wessen wann wo warum wieso weshalb wie woher wohin wieviel "
    "womit",
    "quel quelle quels quelles qui quand pourquoi comment combien quoi lequel laquelle",
    "cual cuales quien quienes cuando donde adonde cuanto cuanta cuantos cuantas",
    "quale quali chi quando dove perche quanto quanta quanti quante cosa cos qual",
)
"""interrogatives"""

OWN = _set(
    "my mine our ours we us i",
    "mein meine meinen meinem meiner meines unser unsere unseren unserem unserer wir uns ich mich",
    "mon ma mes notre nos nous je j",
    "mi mis mio mia nuestro nuestra nuestros nuestras nosotros yo",
    "mie miei nostro nostra nostri nostre noi io",
)
"""pronouns of the first person"""

POSSESSIVE = _set(
    "my mine our ours",
    "mein meine meinen meinem meiner meines unser unsere unseren unserem unserer",
    "mon ma mes notre nos",
    "mi mis nuestro nuestra nuestros nuestras",
    "mia mie miei nostro nostra nostri nostre",
)
"""possessives of the first person"""

PAST = _set(
    "did was were had didn't wasn't weren't been used",
    "hatte hatten war waren wurde wurden habe haben hat hast ist sind wollte sollte",
    "avons avait avaient etait etaient ont avez avais fut",
    "hemos habia habian fue fueron era eran han hizo hicimos",
    "abbiamo aveva avevamo era erano hanno ha",
)
"""auxiliaries of past tenses"""

RECALL = _set(
    "remember remind recall decided decide decision agreed said told mentioned discussed promised wanted chose "
    "picked last earlier previously yesterday ago again usual usually always already once",
    "erinnere erinnerst beschlossen entschieden vereinbart gesagt erzahlt erwahnt besprochen versprochen letzte "
    "letzten letztes neulich gestern damals fruher schon ublich ublichen immer",
    "rappelle souviens decide convenu dit raconte mentionne promis derniere dernier hier deja habituel toujours",
    "recuerda recuerdas recuerdame decidimos acordamos dijo dije dijimos conto menciono prometio ultimo ultima ayer "
    "siempre",
    "ricorda ricordi ricordami deciso detto raccontato promesso concordato ultimo ultima ieri gia solito sempre",
)
"""words for what was said, decided or done before"""

HERE = _set(
    "this that these those it its here them",
    "das dies diese dieser dieses diesen hier es ihn",
    "ca ce cet cette ceci cela ici le celui",
    "esto eso esta este esa ese estos aqui lo",
    "questo questa questi quello quella qui lo",
)
"""words that point into the talk at hand"""

COURTESY = _set(
    "thanks thank hello hi hey morning evening ok okay yes no yep nope please sorry perfect great nice cool sure "
    "fine welcome bye wow haha lol hmm good awesome right exactly ahead lot really",
    "danke hallo nein guten morgen abend bitte prima super tschuss gut genau klar",
    "merci bonjour salut oui non parfait bonsoir ok bravo",
    "gracias hola buenos buenas dias vale perfecto adelante bien claro",
    "grazie ciao buongiorno buonasera bene perfetto ottimo procedi prego",
)
"""greetings, thanks, assent"""

ORDER = _set(
    "add analyse analyze apply build bump change check clean combine commit compare compile compose compute "
    "continue convert copy create debug delete deploy describe draft edit enable explain extract find finish fix "
    "format generate give go handle implement improve insert install keep list make merge move name open optimise "
    "optimize parse plan print proofread pull push put rebase refactor release remove rename reorder repeat replace "
    "reset restart retry revert review rewrite run save search set shorten show simplify solve sort split squash "
    "start stop suggest summarise summarize tell test translate try turn undo update upgrade use validate verify "
    "wait write",
    "andere baue benenne berechne beschreibe committe erganze erklare ersetze erstelle fasse finde formuliere fuhre "
    "fuge gib implementiere kopiere korrigiere lass liste losche mach mache nenne nimm offne optimiere passe prufe "
    "pushe repariere schreib schreibe setze sortiere starte stoppe teste ubersetze uberprufe vereinfache verbessere "
    "verschiebe verwende warte zeig zeige",
    "affiche ajoute change continue convertis copie corrige cree decris deplace donne ecris essaie execute explique "
    "extrais fais genere lance liste mets modifie optimise ouvre propose pousse range refais regarde remplace "
    "renomme resume simplifie supprime teste traduis trie trouve utilise valide verifie peux",
    "agrega anade arregla borra busca cambia comprueba continua convierte copia corrige crea da describe ejecuta "
    "elimina escribe explica genera guarda haz implementa instala lista mejora mueve muestra optimiza ordena prueba "
    "pon quita reemplaza renombra repite resume revisa simplifica sugiere traduce usa verifica puedes",
    "aggiorna aggiungi apri cambia cerca controlla continua converti copia correggi crea dammi elenca elimina "
    "esegui fai genera implementa installa leggi mostra metti migliora ordina ottimizza procedi prova riassumi "
    "rinomina riscrivi rifai rimuovi salva scrivi semplifica sostituisci sposta spiega suggerisci traduci trova usa "
    "verifica",
)
"""verbs with which an assistant is told to do something now"""

FUNCTION = (
    QUESTION
    | OWN
    | PAST
    | HERE
    | _set(
        "between among per via within without",
        "der die das den dem des ein eine einen einem einer eines und oder aber auch noch nur nicht kein keine "
        "keinen in im an am auf aus bei beim mit nach von vom vor zu zum zur fur um uber unter durch gegen ohne bis "
        "seit als wenn dass ob weil denn doch mal so sehr mehr er sie es man ihr ihm ihnen mir sein seine seinen "
        "seiner ihre ihren was bist bin wird werden kann konnen kannst muss mussen soll sollen will wollen dann da "
        "hin her zwischen",
        "le la les l un une des du de d et ou mais ne pas plus a au aux en dans sur sous avec sans pour par chez "
        "vers est sont suis es sommes il elle ils elles on se s lui leur leurs moi son sa ses tu te t vous votre "
        "vos y que qu si comme tres trop aussi encore bien fait faire peut peux faut c n m entre",
        "el la los las un una unos unas y e o pero no mas a al de del en con sin por para sobre entre hasta desde "
        "es son esta estan ser estar se le les lo su sus tu tus te me nos que si como muy tambien ya hay hace ha he "
        "hacer otra otro puede cada",
        "il lo la i gli le l un uno una e ed o ma non piu a al allo alla ai agli alle di del dello della dei degli "
        "ci delle d da dal dalla in nel nella nei con su sul sulla per tra fra sono sei siamo essere ho hai che si "
        "se ti vi suo sua suoi sue tuo tua come molto anche ancora fa fare va vanno sta stanno puo dopo",
    )
)
"""words that say nothing of a subject"""

SHOWING = _set(
    "describe give list name open read recall recap remember review say show sum summarise summarize tell",
    "beschreibe erzahl erzahle fasse liste nenne offne sag zeig zeige",
    "affiche decris liste montre raconte resume",
    "cuenta describe lista muestra recuerda resume",
    "descrivi elenca mostra racconta riassumi ricorda",
)
"""verbs with which people ask an assistant to show what there is"""

MODAL = _set(
    "can could may might must shall should will would",
    "darf durfen kann kannst konnen konnt konnten muss mussen soll sollen sollte sollten",
    "peut peux pouvez pouvons",
    "podemos podrias puede puedes",
    "possiamo potresti puo puoi",
)
"""modal verbs, with which a request may begin"""

ARRANGING = _set(
    "begin book bring call catch come do done finish get go leave let look meet move pause postpone put remind "
    "resume schedule see send ship skip speak take talk again back everything instead later next one other others part "
    "rest second thing things work",
    "anfangen arbeite fang fangen gehen geht machen macht reden schick schicke schicken sehen sprechen treffen "
    "verschieben wiedersehen erinnere weiter erst rest",
    "attends commence commencer envoie faire fera ferons finis laisse parle rappelle reprends reprendrons voit verra "
    "verrons voyons reste",
    "acaba deja empieza hablamos hacemos haremos hazlo manda seguimos termina vemos veremos resto",
    "comincia facciamo faremo fallo finisci lascia manda riprendiamo sentiamo vediamo vedremo resto",
)
"""verbs with which people put off and arrange what has no name, take leave, and what they say with these"""

SUMS = _set(
    "plus minus times multiplied divided percent square root cube power sum product half third double squared cubed "
    "km kilometres kilometers miles metres meters feet inches cm mm kg kilos pounds ounces grams litres liters "
    "gallons celsius fahrenheit degrees hours minutes seconds days weeks months years euros dollars prime number "
    "convert kilometre kilometer mile metre meter foot inch kilo pound ounce gram litre liter degree hour minute "
    "second day week month year euro dollar calculate compute many far long big x c f january february march april "
    "may june july august september october november december",
    "mal geteilt durch prozent wurzel quadrat hoch summe produkt halfte meilen meter zoll pfund gramm liter grad "
    "stunden minuten sekunden tage wochen monate jahre stunde minute sekunde tag woche monat jahr rechne berechne "
    "viel viele",
    "fois divise pour cent racine carree carre somme moitie kilometres metres pieds livres grammes litres degres "
    "heures minutes secondes jours semaines mois ans heure seconde jour semaine an annee combien font calcule",
    "mas menos veces dividido ciento raiz cuadrada suma mitad kilometros metros millas libras gramos litros grados "
    "horas minutos segundos dias semanas meses anos hora minuto segundo dia semana mes ano calcula",
    "piu meno volte diviso cento radice quadrata somma meta chilometri metri miglia libbre grammi litri gradi ore "
    "minuti secondi giorni settimane mesi anni ora minuto secondo giorno settimana mese anno calcola",
)
"""words of arithmetic and of units"""
