"""Network address translation in a network namespace, by the kernel (nf_tables), configured over
netlink: no program must be installed for it.

    nat.py OUT ADDRESS FIRST-LAST...    packets that leave by device OUT get the device's address; TCP
                                        to one of these ports that arrives there is forwarded to
                                        ADDRESS, with the same port

It changes the namespace that it runs in, and exits. Status 77: the kernel does not support it."""

import errno
import socket
import struct
import sys

NETFILTER, TABLES = 12, 10      # netlink family, and its subsystem nf_tables
NEW_TABLE, NEW_CHAIN, NEW_RULE, BEGIN, END = TABLES << 8 | 0, TABLES << 8 | 3, TABLES << 8 | 6, 0x10, 0x11
REQUEST, ACK, CREATE, APPEND, NESTED = 1, 4, 0x400, 0x800, 0x8000
PREROUTING, POSTROUTING, DNAT = 0, 4, 1
TRANSPORT, META_IIFNAME, META_OIFNAME, META_L4PROTO = 2, 6, 7, 16
EQUAL, AT_MOST, AT_LEAST = 0, 3, 5
REGISTER, OTHER_REGISTER = 1, 2


def attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def nest(kind, *parts):
    return attribute(kind | NESTED, b"".join(parts))


def number(kind, n):
    return attribute(kind, struct.pack(">I", n))


def text(kind, word):
    return attribute(kind, word.encode() + b"\0")


def expression(name, *parts):
    return nest(1, text(1, name), nest(2, *parts))


def meta(key):
    return expression("meta", number(1, REGISTER), number(2, key))


def compare(how, value):
    return expression("cmp", number(1, REGISTER), number(2, how), nest(3, attribute(1, value)))


def destination_port():
    return expression("payload", number(1, REGISTER), number(2, TRANSPORT), number(3, 2), number(4, 2))


def immediate(register, value):
    return expression("immediate", number(1, register), nest(2, attribute(1, value)))


def device(name):
    return name.encode().ljust(16, b"\0")


def message(kind, flags, body, family=socket.AF_INET, resource=0):
    head = struct.pack("=BBH", family, 0, socket.htons(resource))
    return struct.pack("=IHHII", 16 + 4 + len(body), kind, REQUEST | flags, 0, 0) + head + body


def chain(name, hook, priority):
    return message(NEW_CHAIN, CREATE | ACK, text(1, "nat") + text(3, name) + text(7, "nat") +
                   nest(4, number(1, hook), number(2, priority & 0xffffffff)))


def rule(where, *expressions):
    return message(NEW_RULE, CREATE | APPEND | ACK, text(1, "nat") + text(2, where) + nest(4, *expressions))


def translate(out, address, ranges):
    to = immediate(OTHER_REGISTER, socket.inet_aton(address))
    said = [message(NEW_TABLE, CREATE | ACK, text(1, "nat")), chain("in", PREROUTING, -100), chain("out", POSTROUTING, 100),
            rule("out", meta(META_OIFNAME), compare(EQUAL, device(out)), expression("masq"))]
    for first, last in ranges:
        said.append(rule("in", meta(META_IIFNAME), compare(EQUAL, device(out)), meta(META_L4PROTO), compare(EQUAL, b"\6"),
                         destination_port(), compare(AT_LEAST, struct.pack(">H", first)), compare(AT_MOST, struct.pack(">H", last)),
                         to, expression("nat", number(1, DNAT), number(2, socket.AF_INET), number(3, OTHER_REGISTER))))
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETFILTER) as s:
        s.bind((0, 0))
        s.settimeout(10)
        s.send(message(BEGIN, 0, b"", 0, TABLES) + b"".join(said) + message(END, 0, b"", 0, TABLES))
        answers = 0
        while answers < len(said):
            data = s.recv(65536)
            while data:
                bytes_, kind = struct.unpack_from("=IH", data)
                if kind == 2:       # a reply
                    why = -struct.unpack_from("=i", data, 16)[0]
                    if why:
                        raise OSError(why, f"nf_tables: {errno.errorcode.get(why, why)}")
                    answers += 1
                data = data[(bytes_ + 3) & ~3:]


def main():
    out, address = sys.argv[1:3]
    ranges = [tuple(map(int, word.split("-"))) for word in sys.argv[3:]]
    with open("/proc/sys/net/ipv4/ip_forward", "w", encoding="ascii") as f:
        f.write("1")
    try:
        translate(out, address, ranges)
    except OSError as why:
        print(why, file=sys.stderr)
        sys.exit(77)


if __name__ == "__main__":
    main()
