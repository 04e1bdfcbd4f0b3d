import { LogError } from "../log-error.ts";
import { type Checkpoint, cosignedAt, openCheckpoint } from "./checkpoint.ts";
import { parseNote, type SignedNote } from "./note.ts";
import { VerifierKey } from "./verifier-key.ts";

interface PolicyLog {
  readonly key: VerifierKey;
  readonly url?: string | undefined;
}

/** A witness of a policy, and the URL to which checkpoints are sent. */
export interface PolicyWitness {
  readonly name: string;
  readonly key: VerifierKey;
  readonly url?: string | undefined;
}

/** Whether the witnesses with these names suffice. */
type Quorum = (cosigned: ReadonlySet<string>) => boolean;

/** The logs that a reader accepts, and the witnesses that it demands (C2SP tlog-policy). */
export interface LogPolicy {
  readonly logs: readonly PolicyLog[];
  readonly witnesses: readonly PolicyWitness[];
  readonly isQuorum: Quorum;
}

/** The lines that have been read, and the names that later lines may use. */
interface Draft {
  readonly logs: PolicyLog[];
  readonly witnesses: PolicyWitness[];
  readonly members: Map<string, Quorum>;
  quorum?: Quorum;
}

const maximumLines = 1000;

/** Parses policies, opens checkpoints of their logs, and accepts those that their quorum has cosigned. */
export const LogPolicy = {
  /**
   * Parses a policy of logs and witnesses (C2SP tlog-policy).
   * @throws LogError `form` for a malformed line, with its number; for a malformed key; and for a policy without a quorum.
   *   Lines after the 1000th are ignored.
   */
  parse(text: string): LogPolicy {
    const draft: Draft = { logs: [], witnesses: [], members: new Map() };
    const lines = text.split("\n", maximumLines);
    for (const [i, line] of lines.entries()) {
      const words = line.split(/[ \t\r]+/).filter((word) => word !== "");
      if (words.length === 0 || words[0]?.startsWith("#")) continue;
      if (!readLine(draft, words)) throw new LogError("form", `line ${i + 1} of the policy`);
    }
    const { logs, witnesses, quorum } = draft;
    if (!quorum) throw new LogError("form", "a policy without a quorum line");
    return { logs, witnesses, isQuorum: quorum };
  },

  /**
   * Opens the checkpoint of a log of the policy, cosigned by its quorum.
   *
   * @throws LogError `form`, `origin` for a log that the policy does not name, `signature`, `quorum`.
   */
  async accept(text: string, policy: LogPolicy): Promise<AcceptedCheckpoint> {
    const opened = await LogPolicy.open(text, policy);
    if (policy.isQuorum(new Set(opened.cosigned.keys()))) return opened;
    throw new LogError("quorum", "too few witnesses of the policy have cosigned the checkpoint");
  },

  /** Verifies a checkpoint like {@link LogPolicy.accept}, but leaves the quorum to the caller. */
  async open(text: string, policy: LogPolicy): Promise<AcceptedCheckpoint> {
    const note = parseNote(text);
    const origin = note.text.slice(0, note.text.indexOf("\n"));
    const log = policy.logs.find(({ key }) => key.name === origin);
    if (!log) throw new LogError("origin", "the policy does not name the log of the checkpoint");
    const checkpoint = await openCheckpoint(note, log.key);
    const cosigned = new Map<string, Date>();
    for (const { name, key } of policy.witnesses) {
      const at = await cosignedAt(note, key);
      if (at) cosigned.set(name, at);
    }
    return { checkpoint, log, note, cosigned };
  },
};

/** Adds a line to the draft. @returns `false` for a malformed line. */
function readLine(draft: Draft, [keyword, ...words]: readonly string[]): boolean {
  switch (keyword) {
    case "log":
      return readLog(draft, words);
    case "witness":
      return readWitness(draft, words);
    case "group":
      return readGroup(draft, words);
    case "quorum":
      return readQuorum(draft, words);
    default:
      return false;
  }
}

function readLog({ logs }: Draft, [vkey = "", url, ...more]: readonly string[]): boolean {
  const key = VerifierKey.parse(vkey);
  if (key.use !== "note" || more.length > 0 || !isUrl(url)) return false;
  logs.push({ key, url });
  return true;
}

function readWitness(
  { witnesses, members }: Draft,
  [name = "", vkey = "", url, ...more]: readonly string[],
): boolean {
  const key = VerifierKey.parse(vkey);
  const isNew = name !== "none" && !members.has(name);
  if (key.use !== "cosignature" || !isNew || more.length > 0 || !isUrl(url)) return false;
  witnesses.push({ name, key, url });
  members.set(name, (cosigned) => cosigned.has(name));
  return true;
}

function readGroup(
  { members }: Draft,
  [name = "", threshold = "", ...names]: readonly string[],
): boolean {
  const parts = names.flatMap((each) => members.get(each) ?? []);
  const needed = threshold === "all" ? names.length : threshold === "any" ? 1 : Number(threshold);
  const isNumber = /^(?:all|any|[1-9][0-9]{0,3})$/.test(threshold);
  const isNew = name !== "" && name !== "none" && !members.has(name);
  if (!isNew || !isNumber || names.length === 0 || needed > names.length) return false;
  if (parts.length < names.length || new Set(names).size < names.length) return false;
  members.set(name, (cosigned) => parts.filter((holds) => holds(cosigned)).length >= needed);
  return true;
}

function readQuorum(draft: Draft, [name = "", ...more]: readonly string[]): boolean {
  const quorum = name === "none" ? () => true : draft.members.get(name);
  if (!quorum || draft.quorum || more.length > 0) return false;
  draft.quorum = quorum;
  return true;
}

const isUrl = (text: string | undefined): boolean =>
  text === undefined || (URL.canParse(text) && /^https?:/.test(text));

/** A verified checkpoint, and the witnesses of the policy that cosigned it, with the time of each. */
export interface AcceptedCheckpoint {
  readonly checkpoint: Checkpoint;
  readonly log: PolicyLog;
  readonly note: SignedNote;
  readonly cosigned: ReadonlyMap<string, Date>;
}
