"""Divides a comment into blocks, and its paragraphs into description and errors.

A block is ("para", text), ("list", [text...]), ("defs", [(term, text)...]) or ("code", lines)."""

import re

ERRORS = (
    "INVALID",
    "NOMEM",
    "SYSTEM",
    "TIMEOUT",
    "PEER_LOST",
    "ABORTED",
    "MISMATCH",
    "UNSUPPORTED",
    "PROTOCOL",
    "FORKED",
    "RANGE",
    "Other errors",
)
ONE = rf"(?:TUTTI_ERR_)?(?:{'|'.join(ERRORS)})"
# "INVALID: " or "MISMATCH or TIMEOUT: " at the start of a sentence
ERROR = re.compile(
    rf"(?:(?<=^)|(?<=[.:;] ))({ONE}(?:(?:, | or ){ONE})*)(?:, (without any effect))?: "
)
SOURCE = re.compile(r"(?:(?<=^)|(?<=\. ))(?=Sources?(?: of the phases)?: )")
VALUE = re.compile(r"Returns? (?!when|without|early|at once|after)")
CODE_INDENT = 4
BULLET = re.compile(r"( *)- (.*)")
# "  TERM   text", or "TERM: text" with continuation lines below the text
TERM = re.compile(r"( {0,3})(\S+(?: \S+){0,4}?)( {2,}|(?<=:) )(\S.*)")
SUMMARY_LENGTH = 100


def indent_of(line):
    return len(line) - len(line.lstrip(" "))


def is_term(lines, i):
    """Returns the match if line i begins a definition: two or more blanks separate term and text,
    or the next line is aligned with the text."""
    match = TERM.fullmatch(lines[i])
    if not match or BULLET.match(lines[i]) or match[2].endswith((".", ",", ";")):
        return None
    follows = lines[i + 1] if i + 1 < len(lines) else ""
    aligned = follows.strip() != "" and indent_of(follows) == match.start(4)
    return match if len(match[3]) > 1 or aligned else None


def blocks_of(lines):
    blocks, i = [], 0
    while i < len(lines):
        line = lines[i]
        if not line.strip():
            i += 1
            continue
        if indent_of(line) >= CODE_INDENT:
            end = i
            while end < len(lines) and (
                not lines[end].strip() or indent_of(lines[end]) >= CODE_INDENT
            ):
                end += 1
            code = lines[i:end]
            while not code[-1].strip():
                code.pop()
            least = min(indent_of(one) for one in code if one.strip())
            blocks.append(("code", [one[least:] for one in code]))
            i = end
            continue
        bullet, term = BULLET.fullmatch(line), is_term(lines, i)
        kind = "list" if bullet else "defs" if term else "para"
        text, end = (bullet[2] if bullet else term[4] if term else line.strip()), i + 1
        while end < len(lines) and lines[end].strip():
            if BULLET.match(lines[end]) or (
                kind != "para" and indent_of(lines[end]) <= indent_of(line)
            ):
                break
            if kind == "para" and (is_term(lines, end) or indent_of(lines[end]) >= CODE_INDENT):
                break
            text += " " + lines[end].strip()
            end += 1
        entry = (term[2].rstrip(":"), text) if term else text
        if kind != "para" and blocks and blocks[-1][0] == kind and lines[i - 1].strip():
            blocks[-1][1].append(entry)
        else:
            blocks.append((kind, entry if kind == "para" else [entry]))
        i = end
    return blocks


def sentences_of(text):
    return re.split(r"(?<=[.;])(?<!e\.g\.)(?<!i\.e\.)\s+(?=[A-Z_\"<(*])", text)


def errors_in(text):
    """Divides a paragraph: (text without errors, [(names, text)...], its sources)."""
    starts = sorted(
        [*ERROR.finditer(text), *SOURCE.finditer(text)], key=lambda match: match.start()
    )
    ends = [match.start() for match in starts[1:]] + [len(text)]
    before, found, sources = text[: starts[0].start()].strip() if starts else text, [], []
    for match, end in zip(starts, ends):
        words = text[match.end() : end].strip()
        if match.re is SOURCE:
            sources.append(words)
        else:
            found.append((match[1], words if not match[2] else f"{words} The call has no effect."))
    return before, found, " ".join(sources)


class Description:
    """A comment as blocks of text, errors and sentences about the returned value."""

    def __init__(self, lines):
        self.blocks, self.errors = [], []
        for kind, content in blocks_of(lines):
            if kind == "para":
                before, errors, after = errors_in(content)
                self.errors += errors
                self.blocks += [("para", text) for text in (before, after) if text]
            elif kind == "defs":
                errors = [
                    (term, text)
                    for term, text in content
                    if re.fullmatch(rf"{ONE}(( or |, ){ONE})*", term)
                ]
                others = [entry for entry in content if entry not in errors]
                self.errors += errors
                if others:
                    self.blocks.append(("defs", others))
            else:
                self.blocks.append((kind, content))
        self.summary = self.first_sentence(" ".join(lines).strip())

    @staticmethod
    def first_sentence(text):
        """The first sentence without its full stop, cut at the end of a clause if it is long."""
        text = " ".join(text.split())
        end = re.search(r"(?<!e\.g)(?<!i\.e)\.(?= |$)(?! [a-z]+ )", text)
        text = text[: end.start()] if end else text
        while len(text) > SUMMARY_LENGTH and re.search(r"(?:[:;,.]| \() ", text):
            text = re.match(r"(.*)(?:[:;,.] | \()", text)[1]
        return text.rstrip(":")

    def returns(self):
        """The sentences about the returned value, which begin with "Return" or "Returns"."""
        text = [content for kind, content in self.blocks if kind == "para"]
        return [one for para in text for one in sentences_of(para) if VALUE.match(one)]
