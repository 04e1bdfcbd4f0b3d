import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { Rotation } from "../../../src/ca/rotation/rotate.ts";
import { Session } from "../../../src/cli/session/session.ts";
import { createEventRecorder } from "../../testkit/log/event-recorder.ts";
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

const secret = { RAMPART_PASSPHRASE: "correct horse battery staple" };
const timeoutMilliseconds = 600_000;

test(
  "an operator founds a CA, rotates, taints, backs up, restores elsewhere, and changes the KEK",
  async () => {
    const [ours, theirs] = [await folder(), await folder()];
    expect(done(await rampart(ours, "authority init --yes"))).toMatch(
      /[0-9a-f]{12} +signing, now +EC-P256/,
    );

    const plan = JSON.parse(done(await rampart(ours, "authority plan --json")));
    const [{ id }] = plan.authorities;
    expect(plan.onTaint).toMatchObject([{ id, successor: "next" }]);
    expect(plan.needsAttention).toEqual([]);

    expect(done(await rampart(ours, "authority rotate --yes"))).toContain("published");
    const [unasked, dry] = await Promise.all([
      rampart(ours, `authority taint ${id} --root with-last-leaf`),
      rampart(ours, `authority taint ${id} --root immediately --dry-run`),
    ]);
    expect(unasked).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringMatching(/add --yes$/m),
    });
    expect(done(dry)).toContain(`put taint ${id}`);

    const tainted = done(await rampart(ours, `authority taint ${id} --root with-last-leaf --yes`));
    expect(tainted).toMatch(/verifying, tainted/);
    expect(tainted).toMatch(/signing, now /);

    const out = join(ours.path, "backup.age");
    done(await rampart(ours, `authority export --out ${out}`, secret));
    expect((await stat(out)).mode & 0o777).toBe(0o600);
    expect((await rampart(ours, `authority export --out ${out}`, secret)).stderr).toContain(
      `${out} exists already`,
    );

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
