import type { Random } from "../../simulation/random.ts";
import {
  applyEdit,
  changeAt,
  childrenOf,
  contentOf,
  type DerEdit,
  der,
  elementAt,
  type Octets,
} from "../../testkit/der/mutation.ts";
import { indexBelow, oneOf, randomOctets, several } from "./choice.ts";
import { mutateOctets } from "./octets.ts";

type Path = readonly number[];

const tags = [
  0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x0c, 0x13, 0x16, 0x17, 0x18, 0x1e, 0x30, 0x31, 0x80, 0x82,
  0x86, 0xa0, 0xa3, 0x1f, 0x24,
];

/** Contents at the borders of what X.509 allows in integers, texts, times and bit strings. */
const contents = [
  "",
  "00",
  "80",
  "ff",
  "0000",
  "00ff",
  "7f",
  "0080",
  "07ff",
  "0800",
  "00".repeat(33),
  "ff".repeat(300),
  "3234303133313233353936305a",
  "2a864886f70d010101",
  "2a8648ce3d030107",
  "2b8104000a",
  "03",
  "010001",
];

const edits: readonly ((random: Random) => Omit<DerEdit, "at">)[] = [
  () => ({ replace: "" }),
  (random) => ({ tag: oneOf(random, tags) }),
  (random) => ({ append: oneOf(random, contents) }),
  (random) => ({ after: oneOf(random, ["0500", "0000", "3000", "00", "0101ff"]) }),
  (random) => ({ lengthOctets: 1 + indexBelow(random, 4) }),
  (random) => ({ header: oneOf(random, ["3080", "1f30", "308400000000", "30ff", "0280", "8000"]) }),
  (random) => ({ nest: 1 + indexBelow(random, 200) }),
];

/** Changes one to three elements of a tree and corrects the lengths around them, or changes octets blindly. */
export function mutateDer(random: Random, tree: Octets): Octets {
  if (random.chance(0.25)) return mutateOctets(random, tree);
  const changed = several(random, 3, tree, (some) => mutateElement(random, some));
  return random.chance(0.1) ? mutateOctets(random, changed) : changed;
}

/** An earlier change may have left lengths that cannot be followed. Then it changes octets blindly. */
function mutateElement(random: Random, tree: Octets): Octets {
  try {
    return mutateAnyElement(random, tree);
  } catch (error) {
    if (error instanceof RangeError) return mutateOctets(random, tree);
    throw error;
  }
}

function mutateAnyElement(random: Random, tree: Octets): Octets {
  const paths = pathsOf(tree);
  const at = oneOf(random, paths);
  if (random.chance(0.4)) return applyEdit(tree, { at, ...oneOf(random, edits)(random) });
  return changeAt(tree, at, (element) => changedElement(random, tree, paths, element));
}

function changedElement(
  random: Random,
  tree: Octets,
  paths: readonly Path[],
  element: Octets,
): Octets {
  const tag = element[0] ?? 0;
  switch (indexBelow(random, 6)) {
    case 0:
      return Buffer.concat([element, element]);
    case 1:
      return elementAt(tree, oneOf(random, paths));
    case 2:
      return der(tag, Buffer.from(oneOf(random, contents), "hex"));
    case 3:
      return der(tag, randomOctets(random, indexBelow(random, 40)));
    case 4:
      return der(0x30, element);
    default:
      return der(tag, prefixOf(tag), mutateOctets(random, contentOf(element)));
  }
}

const prefixOf = (tag: number): Octets => Buffer.from(tag === 0x03 ? [0] : []);

/** The path of every element. It descends into strings that hold DER, and stops where the tree is broken. */
function pathsOf(element: Octets, path: Path = []): Path[] {
  return [path, ...innerOf(element).flatMap((child, i) => pathsOf(child, [...path, i]))];
}

function innerOf(element: Octets): Octets[] {
  try {
    const children = childrenOf(element);
    const isConstructed = ((element[0] ?? 0) & 0x20) !== 0;
    return isConstructed || holdsOneSequence(element, children) ? children : [];
  } catch (error) {
    if (error instanceof RangeError) return [];
    throw error;
  }
}

function holdsOneSequence(element: Octets, children: readonly Octets[]): boolean {
  const tag = element[0];
  if (tag !== 0x03 && tag !== 0x04) return false;
  const [only] = children;
  return children.length === 1 && only?.[0] === 0x30 && only.length === contentOf(element).length;
}
