import { LogError } from "../../../src/tlog/log-error.ts";
import { Hash } from "../../../src/tlog/merkle.ts";
import { openCheckpointText } from "../../../src/tlog/note/checkpoint.ts";
import { formatNote, parseNote } from "../../../src/tlog/note/note.ts";
import { LogPolicy } from "../../../src/tlog/note/policy.ts";
import { LogProof } from "../../../src/tlog/proof.ts";
import { Tile } from "../../../src/tlog/tile.ts";
import type { Random } from "../../simulation/random.ts";
import { entryAt } from "../../testkit/tlog/trees.ts";
import {
  checkpointText,
  entryProofs,
  isSignedBy,
  logKey,
  policyText,
  signedText,
  tiles,
  trees,
  witnessKeys,
} from "../corpus/log.ts";
import { indexBelow, oneOf, several } from "../mutation/choice.ts";
import { mutateOctets } from "../mutation/octets.ts";
import { mutateText } from "../mutation/text.ts";
import { requireThat, type Target } from "./target.ts";

/** What a reader of a log says of data that does not hold. */
async function outcomeOf(read: () => Promise<string>): Promise<string> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof LogError) return `refused by ${error.fault}`;
    throw error;
  }
}

/** The path of a tile on the first line, then its octets. Each has one spelling. */
export const tile: Target = {
  generate: (random) => {
    const [path, octets] = oneOf(random, tiles);
    const bundle = Tile.formatBundle(Array.from({ length: 3 }, (_, i) => entryAt(i)));
    const content = Buffer.from(random.chance(0.5) ? octets : bundle);
    const name = random.chance(0.7)
      ? path
      : oneOf(random, ["tile/entries/000.p/3", "tile/1/x001/234"]);
    return Buffer.concat([
      Buffer.from(`${random.chance(0.5) ? name : mutateText(random, name)}\n`),
      random.chance(0.3) ? content : mutateOctets(random, content),
    ]);
  },
  judge: (input) =>
    outcomeOf(async () => {
      const end = input.indexOf("\n");
      const read = Tile.parsePath(input.subarray(0, Math.max(end, 0)).toString());
      if (!read) return "no path of a tile";
      const octets = input.subarray(end + 1);
      const { width } = read;
      requireThat(width >= 1 && width <= 256, "a tile of an impossible width");
      const again =
        read.level === "entries"
          ? Tile.formatBundle(Tile.parseBundle(octets, width))
          : Tile.format(Tile.parse(octets, width));
      requireThat(octets.equals(again), "a tile has another spelling");
      return read.level === "entries" ? "a bundle" : "a tile";
    }),
};

const policy: LogPolicy = LogPolicy.parse(policyText);

/** A note of a log, as a web server or the log itself may have changed it. */
export const checkpoint: Target = {
  generate: (random) => {
    const text = checkpointText(oneOf(random, trees));
    const witnesses = indexBelow(random, 4);
    if (random.chance(0.5)) return Buffer.from(mutateText(random, signedText(text, witnesses)));
    return Buffer.from(signedText(mutateText(random, text), witnesses));
  },
  judge: (input) =>
    outcomeOf(async () => {
      const whole = input.toString();
      const { checkpoint: read, cosigned } = await LogPolicy.open(whole, policy);
      requireThat(formatNote(parseNote(whole)) === whole, "a note has another spelling");
      const end = whole.lastIndexOf("\n\n");
      const [text, lines] = [whole.slice(0, end + 1), whole.slice(end + 2)];
      requireThat(isSignedBy(logKey, text, lines), "took a checkpoint that its log did not sign");
      const [origin, size, root = ""] = text.split("\n");
      requireThat(origin === logKey.name && size === `${read.size}`, "read another tree");
      requireThat(Buffer.from(root, "base64").equals(read.root), "read another root");
      for (const [i, witness] of witnessKeys.entries()) {
        const isCosigned = isSignedBy(witness, text, lines);
        requireThat(isCosigned || !cosigned.has(`w${i + 1}`), "counts a witness that did not sign");
      }
      return policy.isQuorum(new Set(cosigned.keys())) ? "accepted" : "too few witnesses";
    }),
};

function logOf({ logs: [log] }: LogPolicy): LogPolicy["logs"][number]["key"] {
  if (!log) throw new Error("a policy without a log");
  return log.key;
}

/** The proof of an entry, which holds for that entry at that index alone. */
export const logProof: Target = {
  generate: (random) => {
    const proof = oneOf(random, entryProofs);
    if (random.chance(0.5)) return Buffer.from(mutateText(random, proof));
    const lines = proof.split("\n");
    const others = oneOf(random, entryProofs).split("\n");
    const at = 1 + indexBelow(random, 5);
    return Buffer.from(lines.toSpliced(at, 1, others[oneOf(random, [at, 3, 4])] ?? "").join("\n"));
  },
  judge: (input) =>
    outcomeOf(async () => {
      const text = input.toString();
      const proof = LogProof.parse(text);
      requireThat(LogProof.format(proof) === text, "a proof has another spelling");
      const tree = await openCheckpointText(proof.checkpoint, logOf(policy));
      const entry = proof.extra ?? new Uint8Array();
      LogProof.verifyInclusion(tree, proof.index, Hash.ofLeaf(entry), proof.hashes);
      requireThat(
        tree.size === trees.length - 1 && Buffer.from(entryAt(proof.index)).equals(entry),
        "proved an entry that the log does not have there",
      );
      return "proved";
    }),
};

const words = [
  "w1",
  "w2",
  "w3",
  "two",
  "one",
  "none",
  "all",
  "any",
  "0",
  "2",
  "4",
  "group",
  "quorum",
];

/** A policy, whose quorum every set of witnesses is tried on. */
export const logPolicy: Target = {
  generate: (random) => {
    if (random.chance(0.3)) return Buffer.from(mutateText(random, policyText));
    return Buffer.from(several(random, 4, policyText, (text) => withOtherWord(random, text)));
  },
  judge: (input) =>
    outcomeOf(async () => {
      const text = input.toString();
      const { witnesses, isQuorum } = LogPolicy.parse(text);
      const names = witnesses.map(({ name }) => name);
      for (let set = 0; set < 2 ** Math.min(names.length, 6); set++) {
        const some = new Set(names.filter((_, i) => (set >> i) & 1));
        requireThat(isQuorum(some) === isQuorumByLines(text, some), "counts another quorum");
      }
      return isQuorum(new Set()) ? "no witness needed" : "a quorum";
    }),
};

/** Mostly another word in a line about groups, because a broken line ends the reading. */
function withOtherWord(random: Random, text: string): string {
  const lines = text.split("\n");
  const at = 4 + indexBelow(random, lines.length - 4);
  if (random.chance(0.2)) return lines.toSpliced(at, 0, oneOf(random, lines)).join("\n");
  const line = (lines[at] ?? "").split(" ");
  const place = 1 + indexBelow(random, line.length);
  const changed = line.toSpliced(place, oneOf(random, [0, 1, 1, 1]), oneOf(random, words));
  return lines.toSpliced(at, 1, changed.join(" ")).join("\n");
}

/** Whether the witnesses suffice, by a reader that asks each line anew. */
function isQuorumByLines(text: string, some: ReadonlySet<string>): boolean {
  const lines = text.split("\n").map((line) => line.split(/[ \t\r]+/).filter(Boolean));
  const [, quorum = "none"] = lines.find(([keyword]) => keyword === "quorum") ?? [];
  const holds = (name: string): boolean => {
    const [, , threshold, ...members] =
      lines.find(([keyword, named]) => keyword === "group" && named === name) ?? [];
    if (threshold === undefined) return some.has(name);
    const count = members.filter(holds).length;
    if (threshold === "all") return count === members.length;
    return count >= (threshold === "any" ? 1 : Number(threshold));
  };
  return quorum === "none" || holds(quorum);
}
