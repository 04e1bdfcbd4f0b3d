import { RecordName, type StoredRecord } from "../../../src/custody/authority-store.ts";
import { RecordError } from "../../../src/custody/record-fields.ts";
import { Statement } from "../../../src/custody/statement.ts";
import type { Random } from "../../simulation/random.ts";
import { clusterLocal } from "../../testkit/pki/certificates.ts";
import { openRecord } from "../../testkit/pki/record-opening.ts";
import { corpusKeks, corpusRecords } from "../corpus/records.ts";
import { oneOf } from "../mutation/choice.ts";
import { mutateJson } from "../mutation/json.ts";
import { mutateText } from "../mutation/text.ts";
import { requireThat, type Target } from "./target.ts";

/** A sealed record, as text: its kind and id on the first line, then its value. It opens only untouched. */
export const record: Target = {
  generate: (random) => Buffer.from(toText(mutated(random, oneOf(random, corpusRecords)))),
  judge: async (octets) => {
    const stored = fromText(octets.toString());
    if (!stored) return "no name of a record";
    const check = await failedCheck(stored);
    if (check) return `refused by ${check}`;
    const isOurs = corpusRecords.some((known) => toText(known) === toText(stored));
    requireThat(isOurs, `opened a ${stored.kind} record that nobody sealed`);
    return "opened, untouched";
  },
};

function mutated(random: Random, stored: StoredRecord): StoredRecord {
  if (random.chance(0.05)) return { ...stored, kind: oneOf(random, RecordName.kinds) };
  if (random.chance(0.05)) return { ...stored, id: oneOf(random, corpusRecords).id };
  if (random.chance(0.05)) return { ...stored, value: oneOf(random, corpusRecords).value };
  if (random.chance(0.4)) return { ...stored, value: mutateText(random, stored.value) };
  return { ...stored, value: mutateJson(random, JSON.parse(stored.value)) };
}

const toText = ({ kind, id, value }: StoredRecord): string => `${kind} ${id}\n${value}`;

function fromText(text: string): StoredRecord | undefined {
  const end = text.indexOf("\n");
  const [name, id = ""] = text.slice(0, Math.max(end, 0)).split(" ");
  const kind = RecordName.kinds.find((each) => each === name);
  return kind && { kind, id, value: text.slice(end + 1) };
}

const open = (stored: StoredRecord): Promise<unknown> =>
  stored.kind === "authority"
    ? openRecord(stored, clusterLocal, corpusKeks)
    : Statement.open(stored.kind, stored, { trustDomain: clusterLocal, keks: corpusKeks });

async function failedCheck(stored: StoredRecord): Promise<string | undefined> {
  try {
    await open(stored);
    return undefined;
  } catch (error) {
    if (error instanceof RecordError) return error.check;
    throw error;
  }
}
