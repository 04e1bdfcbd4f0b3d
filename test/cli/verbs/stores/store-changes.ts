import { randomUUID } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { generateX25519Identity, identityToRecipient } from "age-encryption";
import type { Mint } from "../../../../src/ca/mint.ts";
import { RevocationStatements } from "../../../../src/ca/revocation/record-revocations.ts";
import { Session } from "../../../../src/cli/session/session.ts";
import { init } from "../../../../src/cli/verbs/authority/authority.ts";
import { exportBackup, restore } from "../../../../src/cli/verbs/authority/backup.ts";
import { sealBackup } from "../../../../src/cli/verbs/authority/backup-file.ts";
import { importAuthority, install } from "../../../../src/cli/verbs/authority/install.ts";
import { request, withdraw } from "../../../../src/cli/verbs/authority/own-root.ts";
import { rotateNow, taint } from "../../../../src/cli/verbs/authority/rotation.ts";
import { add as deny, remove as undeny } from "../../../../src/cli/verbs/deny.ts";
import { add as addRoots, remove as removeRoot } from "../../../../src/cli/verbs/root.ts";
import type { RevocationContent } from "../../../../src/custody/record-kinds.ts";
import { Pem } from "../../../../src/pki/encoding/pem.ts";
import { addSeconds } from "../../../../src/pki/x509/validity.ts";
import { signIntermediate } from "../../../testkit/pki/company-ca.ts";
import { createCa, writeCacerts } from "../../../testkit/pki/plugged-in.ts";

export interface StoreChange {
  readonly verb: string;
  /** A run that differs from another one of the same verb. */
  readonly when?: string;
  readonly mint?: Partial<Mint>;
  /** Whether it asks before it writes, unless it has `--yes`. */
  readonly asks?: true;
  /** What writes without a dry run, or is here without its verb. */
  readonly hasNoDryRun?: true;
  /** Brings an empty store, and a folder of an operator, into the state that the verb finds. */
  readonly prepare: (session: Session, folder: string) => Promise<unknown>;
  readonly run: (session: Session, folder: string) => Promise<unknown>;
}

export const now = new Date("2026-11-21T12:00:00Z");

const nothing = async (): Promise<void> => {};

const found = (session: Session): Promise<void> =>
  init({ ...session, now: addSeconds(now, -86_400) });

const subject = "spiffe://cluster.local/ns/foo/sa/bar";
const company = await createCa("O=company,CN=root");
const partner = await createCa("O=partner,CN=root");
const own = await createCa("O=mesh,CN=root");
const identity = await generateX25519Identity();

const offline = { authorityRoot: "offline" } as const;

async function onlyId(session: Session): Promise<string> {
  const [authority] = (await Session.open(session)).authorities;
  return authority?.id ?? "none";
}

async function writeRoots(folder: string): Promise<string> {
  const file = join(folder, "roots.pem");
  await writeFile(file, company.pem + partner.pem);
  return file;
}

async function prepareAnswer(session: Session, folder: string): Promise<void> {
  await request(session);
  const [open] = (await Session.open(session)).requests;
  if (!open) throw new Error("there is no request");
  const csr = Pem.format("CERTIFICATE REQUEST", open.csr);
  const pem = await signIntermediate(company, csr, { notAfter: addSeconds(now, 365 * 86_400) });
  await writeFile(join(folder, "chain.pem"), pem + company.pem);
}

const revocation = async (session: Session, serial: string): Promise<RevocationContent> => ({
  authority: await onlyId(session),
  revokedAt: now,
  knownFrom: now,
  reason: "keyCompromise",
  why: undefined,
  certificates: new Map([[serial, addSeconds(now, 86_400).getTime() / 1000]]),
});

async function revokeTwice(session: Session): Promise<void> {
  const statements = await Promise.all(["01", "02"].map((each) => revocation(session, each)));
  await RevocationStatements.record(session.mint, statements);
}

async function prepareBackup(session: Session, folder: string): Promise<void> {
  await found(session);
  await taint(session, await onlyId(session), { root: "with-last-leaf" });
  await deny(session, subject, {});
  await addRoots(session, await writeRoots(folder));
  await RevocationStatements.record(session.mint, [await revocation(session, "03")]);
  const backup = await sealBackup(session, { recipients: [await identityToRecipient(identity)] });
  await writeFile(join(folder, "backup.age"), backup);
  await writeFile(join(folder, "identity"), identity);
  for (const record of await session.mint.store.load()) await session.mint.store.delete(record);
}

const tainting = (root: "immediately" | "with-last-leaf"): StoreChange => ({
  verb: "authority taint",
  when: root,
  asks: true,
  prepare: found,
  run: async (session) => taint(session, await firstId(session), { root }),
});

const importing = (when: string, prepare: StoreChange["prepare"]): StoreChange => ({
  verb: "authority import",
  when,
  prepare,
  run: async (session, folder) =>
    importAuthority(session, folder, { roots: await writeRoots(folder) }),
});

const changes: readonly StoreChange[] = [
  { verb: "authority init", asks: true, prepare: nothing, run: (session) => init(session) },
  { verb: "authority rotate", asks: true, prepare: found, run: (session) => rotateNow(session) },
  tainting("immediately"),
  tainting("with-last-leaf"),
  importing("into an empty store", (_, folder) => writeCacerts(folder, own)),
  {
    ...importing("beside another authority", async (session, folder) => {
      await found(session);
      await writeCacerts(folder, own);
    }),
    asks: true,
  },
  { verb: "authority request", mint: offline, prepare: nothing, run: request },
  {
    verb: "authority withdraw",
    asks: true,
    mint: offline,
    prepare: request,
    run: async (session) => {
      const [open] = (await Session.open(session)).requests;
      await withdraw(session, open?.id ?? "none");
    },
  },
  {
    verb: "authority install",
    mint: offline,
    prepare: prepareAnswer,
    run: (session, folder) => install(session, join(folder, "chain.pem"), {}),
  },
  {
    verb: "authority restore",
    asks: true,
    prepare: prepareBackup,
    run: (session, folder) =>
      restore(session, join(folder, "backup.age"), { identity: join(folder, "identity") }),
  },
  {
    verb: "authority export",
    hasNoDryRun: true,
    prepare: found,
    run: async (session, folder) => {
      const recipient = [await identityToRecipient(identity)];
      await exportBackup(session, { out: join(folder, randomUUID()), recipient });
    },
  },
  { verb: "deny add", asks: true, prepare: found, run: (session) => deny(session, subject, {}) },
  {
    verb: "deny remove",
    asks: true,
    prepare: (session) => deny(session, subject, {}),
    run: (session) => undeny(session, subject),
  },
  {
    verb: "root add",
    prepare: found,
    run: async (session, folder) => addRoots(session, await writeRoots(folder)),
  },
  {
    verb: "root remove",
    asks: true,
    prepare: async (session, folder) => addRoots(session, await writeRoots(folder)),
    run: async (session) => {
      const ids = (await Session.open(session)).additionalRoots.map(({ id }) => id).toSorted();
      await removeRoot(session, ids[0] ?? "none", {});
    },
  },
  { verb: "certificate revoke", hasNoDryRun: true, prepare: found, run: revokeTwice },
];

export const storeChanges: readonly (StoreChange & { readonly title: string })[] = changes.map(
  (change) => ({ ...change, title: change.when ? `${change.verb} ${change.when}` : change.verb }),
);

/** The authority that was there first: a taint makes another one. */
async function firstId(session: Session): Promise<string> {
  const { authorities } = await Session.open(session);
  const [first] = authorities.toSorted(
    (a, b) => a.schedule.publishedFrom.getTime() - b.schedule.publishedFrom.getTime(),
  );
  return first?.id ?? "none";
}
