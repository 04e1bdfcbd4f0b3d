import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CallerAddress } from "../../../src/foundation/shares.ts";
import { RankedShares } from "../../../src/node/limits/ranked-shares.ts";

interface Thing {
  readonly name: string;
  readonly address: string;
}

type Kind = "count" | "octets";

const thing = (name: string, address: string): Thing => ({ name, address });

function sharesOf(...things: readonly Thing[]): RankedShares<Thing, Kind> {
  const shares = new RankedShares<Thing, Kind>({ count: 0, octets: 0 });
  for (const each of things) shares.add(each, "count");
  return shares;
}

const [a1, a2, b1] = ["192.0.2.1", "192.0.2.2", "198.51.100.1"];

describe("the oldest member of the largest share", () => {
  test("is of the network with most, even if an address of another network has more", () => {
    const shares = sharesOf(
      ...["b", "c"].map((name) => thing(name, b1)),
      ...["d", "e", "f"].map((name, i) => thing(name, `192.0.2.${i}`)),
    );
    expect(shares.oldestOfLargest("count")?.name).toBe("d");
  });

  test("is of the address with most where networks have the same number, even if another came first", () => {
    const shares = sharesOf(thing("a", a1), thing("b", a2), thing("c", b1), thing("d", b1));
    expect(shares.oldestOfLargest("count")?.name).toBe("c");
  });

  test("is never a member that must stay, nor one that was removed", () => {
    const [first, second, other] = [thing("a", a1), thing("b", a1), thing("c", b1)];
    const shares = sharesOf(first, second, other);
    expect(shares.oldestOfLargest("count", (each) => each !== first)).toBe(second);
    expect(shares.oldestOfLargest("count", ({ address }) => address === b1)).toBe(other);
    expect([first, second, second].map((each) => shares.remove(each, "count"))).toEqual([
      true,
      true,
      false,
    ]);
    expect(shares.oldestOfLargest("count")).toBe(other);
    shares.remove(other, "count");
    expect(shares.oldestOfLargest("count")).toBeUndefined();
    expect([shares.inAll("count"), shares.inAll("octets")]).toEqual([0, 0]);
  });

  test("belongs to the largest share after any additions, counts and removals", () => {
    const addresses = [a1, a1, a1, a2, a2, b1, b1, "198.51.100.2", "203.0.113.1"];
    const step = fc.tuple(
      fc.constantFrom("add", "add", "count", "remove"),
      fc.nat(addresses.length - 1),
      fc.nat(9),
    );
    fc.assert(
      fc.property(fc.array(step), fc.constantFrom("count", "octets"), (steps, kind) => {
        const shares = sharesOf();
        const pool = addresses.map((address, i) => thing(`${i}`, address));
        /** The octets of each thing that is there. */
        const held = new Map<Thing, number>();
        for (const [act, i, octets] of steps) {
          const each = pool[i] ?? thing("none", "");
          const before = held.get(each);
          if (act === "add" && before === undefined) {
            shares.add(each, "count");
            held.set(each, 0);
          }
          if (act === "count" && before !== undefined) {
            shares.count(each.address, "octets", octets);
            held.set(each, before + octets);
          }
          if (act === "remove" && before !== undefined) {
            shares.count(each.address, "octets", -before);
            expect(shares.remove(each, "count")).toBe(held.delete(each));
          }
        }
        const amountOf = (those: (each: Thing) => boolean) =>
          [...held]
            .filter(([each]) => those(each))
            .reduce((sum, [, octets]) => sum + (kind === "count" ? 1 : octets), 0);
        const rankOf = ({ address }: Thing): number =>
          1000 *
            amountOf(
              (each) => CallerAddress.networkOf(each.address) === CallerAddress.networkOf(address),
            ) +
          amountOf((each) => each.address === address);
        const found = shares.oldestOfLargest(kind);
        const ranks = [...held.keys()].map(rankOf).toSorted((a, b) => b - a);
        expect(found && rankOf(found)).toBe(ranks[0]);
        expect(shares.inAll(kind)).toBe(amountOf(() => true));
      }),
    );
  });
});

describe("a share", () => {
  test("exists as long as an amount of it is left, and its network as long as it has a share", () => {
    const shares = sharesOf(thing("a", a1));
    shares.count(a1, "octets", 5);
    shares.count(a2, "octets", 0);
    const open = () => [...shares.all()].map(({ address, network }) => [address, network.amounts]);
    expect(open()).toEqual([[a1, { count: 1, octets: 5 }]]);
    shares.remove([...shares.of(a1).members][0] ?? thing("none", ""), "count");
    expect(open()).toEqual([[a1, { count: 0, octets: 5 }]]);
    expect(shares.of(a2).network.amounts.octets).toBe(5);
    shares.count(a1, "octets", -5);
    expect(open()).toEqual([]);
    expect(shares.of(a2).network.amounts.octets).toBe(0);
  });

  test("that is moved back is the last in the order", () => {
    const shares = sharesOf(thing("a", a1), thing("b", b1));
    shares.moveBack(a1);
    shares.moveBack(a2);
    expect([...shares.all()].map(({ address }) => address)).toEqual([b1, a1]);
  });
});
