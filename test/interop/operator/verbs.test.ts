import { existsSync } from "node:fs";
import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Command } from "commander";
import { afterAll, describe, expect, test } from "vitest";
import { Rotation } from "../../../src/ca/rotation/rotate.ts";
import { Session } from "../../../src/cli/session/session.ts";
import type { Terminal } from "../../../src/cli/terminal/terminal.ts";
import { authorityCommand } from "../../../src/cli/verbs/authority/authority.ts";
import { rootCommand } from "../../../src/cli/verbs/root.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
import { operatorErrorOf } from "../../testkit/pki/plugged-in.ts";
import {
  type Answer,
  configureKeks,
  createKekEntry,
  createOperatorFolder,
  type OperatorFolder,
  rampart,
} from "../../testkit/programs/command-line.ts";
import { MemoryTerminal } from "../../testkit/programs/memory-terminal.ts";

const folders: OperatorFolder[] = [];

async function folder(): Promise<OperatorFolder> {
  const made = await createOperatorFolder();
  folders.push(made);
  return made;
}

afterAll(() => Promise.all(folders.map(({ path }) => rm(path, { recursive: true, force: true }))));

/** Runs a verb that must succeed. */
function done({ code, stdout, stderr }: Answer): string {
  expect(stderr).not.toMatch(/^rampart: (?!still )/m);
  expect(code).toBe(0);
  return stdout;
}

/** Runs a verb that must fail with a sentence, without a stack, and with an empty standard output. */
function refused({ code, stdout, stderr }: Answer): string {
  expect(code).toBe(2);
  expect(stderr).not.toMatch(/^ +at /m);
  expect(stdout).toBe("");
  return stderr;
}

/** Reads a store without the command line. */
const within = (where: OperatorFolder, use: (session: Session) => Promise<void>): Promise<void> =>
  Session.use(new MemoryTerminal(), { config: where.config }, use);

async function contentOf(where: OperatorFolder): Promise<unknown> {
  let content: unknown;
  await within(where, async (session) => {
    const { authorities, additionalRoots, taints, refusals } = await Session.open(session);
    const byId = (a: { id: string }, b: { id: string }) => a.id.localeCompare(b.id);
    content = {
      authorities: authorities
        .map(({ id, certificate, schedule }) => ({ id, der: certificate.der, schedule }))
        .toSorted(byId),
      additionalRoots: additionalRoots.toSorted(byId),
      taints,
      refusals,
    };
  });
  return content;
}

/** Runs a verb in this process, which is cheaper. @returns The lines of its error. */
function operatorErrorOfVerb(
  { config }: OperatorFolder,
  words: string,
): Promise<readonly string[]> {
  const [noun = "", ...verb] = words.split(" ");
  const command = nouns[noun]?.(new MemoryTerminal());
  return operatorErrorOf(() =>
    command?.parseAsync([...verb, "--config", config], { from: "user" }),
  );
}

const nouns: Readonly<Record<string, (terminal: Terminal) => Command>> = {
  authority: authorityCommand,
  root: rootCommand,
};

const secret = { RAMPART_PASSPHRASE: "correct horse battery staple" };
const timeoutMilliseconds = 600_000;

describe.concurrent("an operator", () => {
  test(
    "founds a CA, rotates, taints, backs up, restores elsewhere, and changes the KEK",
    async () => {
      const [ours, theirs] = [await folder(), await folder()];
      expect(done(await rampart(ours, "authority init --yes"))).toMatch(
        /[0-9a-f]{12} +signing, now +EC-P256/,
      );
      expect(await operatorErrorOfVerb(ours, "authority init")).toEqual([
        "the store is not empty: init creates the first authority of an empty store",
      ]);

      const plan = JSON.parse(done(await rampart(ours, "authority plan --json")));
      const [{ id }] = plan.authorities;
      expect(plan.onTaint).toMatchObject([{ id, successor: "next" }]);
      expect(plan.needsAttention).toEqual([]);

      expect(done(await rampart(ours, "authority rotate --yes"))).toContain("published");
      expect(await operatorErrorOfVerb(ours, "authority rotate")).toEqual([
        expect.stringMatching(/^a successor is prepared: [0-9a-f]{12} signs from/),
      ]);
      const [unasked, dry] = await Promise.all([
        rampart(ours, `authority taint ${id} --root with-last-leaf`),
        rampart(ours, `authority taint ${id} --root immediately --dry-run`),
      ]);
      expect(refused(unasked)).toMatch(/add --yes$/m);
      expect(done(dry)).toContain(`put taint ${id}`);

      const tainted = done(
        await rampart(ours, `authority taint ${id} --root with-last-leaf --yes`),
      );
      expect(tainted).toMatch(/verifying, tainted/);
      expect(tainted).toMatch(/signing, now /);

      const out = join(ours.path, "backup.age");
      done(await rampart(ours, `authority export --out ${out}`, secret));
      expect((await stat(out)).mode & 0o777).toBe(0o600);
      expect(await operatorErrorOfVerb(ours, `authority export --out ${out}`)).toEqual([
        `${out} exists already`,
      ]);

      const old = createKekEntry(theirs, "elsewhere");
      await configureKeks(theirs, old);
      done(await rampart(theirs, `authority restore ${out} --yes`, secret));
      expect(await contentOf(theirs)).toEqual(await contentOf(ours));

      const next = createKekEntry(theirs, "next");
      await configureKeks(theirs, next, old);
      await within(theirs, ({ mint, now }) =>
        Rotation.rotate({ ...mint, log: createEventRecorder() }, now),
      );
      const table = done(await rampart(theirs, "kek list --retire elsewhere"));
      expect(table).toMatch(/^next +yes +3\nelsewhere +yes +0$/m);
      await configureKeks(theirs, next);
      expect(await contentOf(theirs)).toEqual(await contentOf(ours));
    },
    timeoutMilliseconds,
  );

  test(
    "who mistypes is told so, before anything is opened",
    async () => {
      const nowhere = await folder();
      const slips: Readonly<Record<string, RegExp>> = {
        authorities: /unknown command 'authorities'\n\(Did you mean authority\?\)/,
        "authority list --jsno": /unknown option '--jsno'.*\n.*\n\(--help shows/,
        "authority taint --root immediately": /missing required argument 'id'/,
        "authority taint abcd": /required option '--root <when>'/,
        "authority list --remote --local": /cannot be used with option '--local'/,
        "root remove abcd --after soon": /must be a duration/,
        "kek new a:b": /^rampart: a KEK's id is 1 to 64 letters/,
      };
      const answers = await Promise.all(Object.keys(slips).map((words) => rampart(nowhere, words)));
      const reasons = answers.map(refused);
      for (const [i, pattern] of Object.values(slips).entries())
        expect(reasons[i]).toMatch(pattern);
      expect(existsSync(join(nowhere.path, ".wrangler"))).toBe(false);
    },
    timeoutMilliseconds,
  );
});
