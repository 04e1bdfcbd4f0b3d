import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { networkOf } from "../../../src/foundation/peer-address.ts";
import { Lanes } from "../../../src/node/limits/shares.ts";

interface Thing {
  readonly name: string;
  readonly address: string;
  octets: number;
}

const thing = (name: string, address: string, octets = 0): Thing => ({ name, address, octets });

function lanesOf(...things: readonly Thing[]): Lanes<Thing> {
  const lanes = new Lanes<Thing>();
  for (const each of things) lanes.add(each);
  return lanes;
}

const isAny = () => true;

describe("the oldest of the largest", () => {
  const [a1, a2, b1] = ["192.0.2.1", "192.0.2.2", "198.51.100.1"];

  test("is of the network with most, though an address of another one has more", () => {
    const lanes = lanesOf(
      ...["b", "c"].map((name) => thing(name, b1)),
      ...["d", "e", "f"].map((name, i) => thing(name, `192.0.2.${i}`)),
    );
    expect(lanes.oldestOfLargest("count", isAny)?.name).toBe("d");
  });

  test("is of the address with most, where networks have as much: never of the one that came first", () => {
    const lanes = lanesOf(thing("a", a1), thing("b", a2), thing("c", b1), thing("d", b1));
    expect(lanes.oldestOfLargest("count", isAny)?.name).toBe("c");
  });

  test("is not of those that may not go, nor of what was removed", () => {
    const [first, second, other] = [thing("a", a1), thing("b", a1), thing("c", b1)];
    const lanes = lanesOf(first, second, other);
    expect(lanes.oldestOfLargest("count", (each) => each !== first)).toBe(second);
    expect(lanes.oldestOfLargest("count", ({ address }) => address === b1)).toBe(other);
    for (const each of [first, second, second]) lanes.remove(each);
    expect(lanes.oldestOfLargest("count", isAny)).toBe(other);
    lanes.remove(other);
    expect(lanes.oldestOfLargest("count", isAny)).toBeUndefined();
    expect([lanes.count, lanes.octets]).toEqual([0, 0]);
  });

  test("has most of its kind, whatever has come, grown and gone", () => {
    const addresses = [a1, a1, a1, a2, a2, b1, b1, "198.51.100.2", "203.0.113.1"];
    const step = fc.tuple(
      fc.constantFrom("add", "add", "hold", "remove"),
      fc.nat(addresses.length - 1),
      fc.nat(9),
    );
    fc.assert(
      fc.property(fc.array(step), fc.constantFrom("count", "octets"), (steps, by) => {
        const lanes = new Lanes<Thing>();
        const pool = addresses.map((address, i) => thing(`${i}`, address, i));
        const held = new Set<Thing>();
        for (const [act, i, octets] of steps) {
          const each = pool[i] ?? thing("none", "");
          if (act === "hold") lanes.hold(each, octets);
          if (act === "remove" && held.delete(each)) lanes.remove(each);
          if (act === "add" && !held.has(each)) lanes.add(each);
          if (act === "add") held.add(each);
        }
        const amountOf = (those: (each: Thing) => boolean) =>
          [...held]
            .filter(those)
            .reduce((sum, each) => sum + (by === "count" ? 1 : each.octets), 0);
        const rankOf = ({ address }: Thing): number =>
          1000 * amountOf((each) => networkOf(each.address) === networkOf(address)) +
          amountOf((each) => each.address === address);
        const found = lanes.oldestOfLargest(by, isAny);
        expect(found && rankOf(found)).toBe([...held].map(rankOf).toSorted((a, b) => b - a)[0]);
        expect(lanes[by]).toBe(amountOf(isAny));
      }),
    );
  });
});
