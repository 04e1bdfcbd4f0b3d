import { X509Certificate } from "node:crypto";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { beforeEach, describe, expect, test } from "vitest";
import { Mint } from "../../../../src/ca/mint.ts";
import { storesAt } from "../../../../src/cli/session/stores.ts";
import { authorityCommand } from "../../../../src/cli/verbs/authority/authority.ts";
import { rootCommand } from "../../../../src/cli/verbs/root.ts";
import { OperatorError } from "../../../../src/foundation/errors.ts";
import { randomKek } from "../../../testkit/configuration.ts";
import { eventually } from "../../../testkit/time/eventually.ts";
import { Operator } from "../../operator.ts";

const start = new Date("2026-11-21T12:00:00Z");

let operator: Operator;
let recipient: readonly string[];

const authority = (...words: readonly string[]) => operator.authority(...words);
const list = () => operator.authorities();
const signing = async () => (await list()).find(({ phase }) => phase === "signing")?.id ?? "";

beforeEach(async () => {
  operator = await Operator.founded(start, 'PROPAGATION_INTERVAL = "0s"');
  recipient = await operator.recipient();
});

const out = () => operator.file("backup.age");
const exported = () => authority("export", "-o", out(), ...recipient);
const restored = (...more: readonly string[]) =>
  authority("restore", out(), "-i", operator.file("identity"), ...more);

test("a file that is no backup is refused before anybody is asked for its passphrase", async () => {
  await writeFile(out(), "-----BEGIN CERTIFICATE-----\n");
  await expect(authority("restore", out(), "--yes")).rejects.toThrow(
    `${out()} is no file that \`rampart authority export\` wrote`,
  );
});

describe("a record that does not open", () => {
  const count = /records that do not open:? \(?[12]\)?$/;

  test.each([
    ["authority list", "list"],
    ["authority plan", "plan"],
    ["authority requests", "requests"],
    ["authority request", "request"],
    ["authority import", "import", "/nowhere"],
    ["authority install", "install", "/nowhere"],
    ["authority export", "export", "-o", "/nowhere/backup"],
  ])("beside one that does ends %s, which changes nothing", async (_, ...words) => {
    await operator.configure('AUTHORITY_ROOT = "offline"');
    await writeFile(operator.file(`store/authorities/${"ab".repeat(20)}.json`), "{}");
    const records = () => readdir(operator.file("store"), { recursive: true });
    const before = await records();
    const more = words[0] === "export" ? recipient : [];
    await expect(authority(...words, ...more)).rejects.toThrow(count);
    expect(await records()).toEqual(before);
  });

  test("is an authority, so that the store is not empty", async () => {
    await exported();
    operator.terminal.setVariable("KEK", randomKek());
    for (const words of [["plan"], ["rotate", "--yes"], ["taint", "0000", "--root", "immediately"]])
      await expect(authority(...words)).rejects.toThrow(
        /records that do not open \(2\)$|begins with/,
      );
    await expect(authority("init", "--yes")).rejects.toThrow("the store is not empty");
    await expect(restored()).rejects.toThrow(/^There are authorities or unreadable records \(2\)/);
  });
});

describe("a taint", () => {
  test("of which the rotation was interrupted is followed by it when it is typed again", async () => {
    const id = await signing();
    const { mint } = await storesAt(await operator.deployment(), start);
    const retiresAt = new Date("2026-11-21T13:00:00Z");
    await Mint.recordTaint(mint, { id, taintedAt: start, retiresAt });
    expect(await signing()).toBe("");
    await expect(authority("taint", id, "--root", "with-last-leaf", "--yes")).rejects.toThrow(
      /is tainted or removed already/,
    );
    expect(await signing()).not.toBe("");
    expect(await authority("list")).toMatch(/verifying, tainted .* tainted 2026-11-21 12:00Z /);
  });

  test("prints the line of the configuration that keeps storage from withholding it", async () => {
    const id = await signing();
    const told = await authority("taint", id, "--root", "immediately", "--yes");
    const line = /^TAINTED_AUTHORITIES = .*$/m.exec(told)?.[0] ?? "";
    expect(line).toContain(`{ id = "${id}", root_until = "2026-11-21T12:00:00Z" }`);
    await operator.configure(line);
    const plan = JSON.parse(await authority("plan", "--json"));
    expect(plan.needsAttention).toEqual([]);
    expect(await signing()).not.toBe(id);
  });

  test("prints the taints that the configuration states already, too", async () => {
    const id = await signing();
    const taint = (how: string) => authority("taint", id, "--root", "with-last-leaf", how);
    const another = "ab".repeat(20);
    await operator.configure(`TAINTED_AUTHORITIES = ["${another}"]`);
    expect(await taint("--dry-run")).not.toContain("TAINTED_AUTHORITIES");
    const stricter = `{ id = "${id}", root_until = "2026-11-21T12:30:00Z" }`;
    await operator.configure(`TAINTED_AUTHORITIES = ["${another}", ${stricter}]`);
    expect(await taint("--yes")).toContain(
      `TAINTED_AUTHORITIES = ["${another}", ${stricter}, { id = "${id}", root_until = "20`,
    );
  });

  test("of a key for tokens says until when there are none, and changes nothing in a dry run", async () => {
    const documents = async (): Promise<string[]> => {
      await authority("documents", "--dir", operator.file("documents"));
      const file = operator.file("documents/.well-known/jwks.json");
      return JSON.parse(await readFile(file, "utf8")).keys.map(({ kid }: { kid: string }) => kid);
    };
    await operator.configure('JWT_ISSUER = "https://ca.example.test"');
    await authority("taint", await signing(), "--root", "immediately", "--yes");
    operator.now = new Date(start.getTime() + 60_000);
    const [kid = ""] = await documents();
    const none = " No token is issued until a new key has been published for 25 hours.";
    const asked = await authority("taint", kid, "--root", "immediately", "--dry-run");
    expect(asked).toContain(`${kid} would be tainted.`);
    expect(asked).toContain(none);
    expect(await documents()).toEqual([kid]);
    const told = await authority("taint", kid, "--root", "immediately", "--yes");
    expect(told).toContain(`${kid} is tainted.`);
    expect(told).toContain(none);
    expect(await documents()).toEqual([expect.not.stringContaining(kid)]);
  });

  test("that only the configuration states is in the list, the plan and every backup", async () => {
    const id = await signing();
    await operator.configure(`TAINTED_AUTHORITIES = ["${id.slice(0, 16)}"]`);
    expect(await list()).toMatchObject([{ id, isTainted: true, phase: "verifying" }]);
    expect(await authority("list")).toMatch(/verifying, tainted .* configuration /);
    const plan = JSON.parse(await authority("plan", "--json"));
    expect(plan.needsAttention).toContain(
      `the store lacks the taint of ${id} that TAINTED_AUTHORITIES states`,
    );
    expect(plan.onTaint).toEqual([]);
    expect(await exported()).toContain(`tainted: ${id.slice(0, 12)}.`);
    await operator.configure();
    expect(await signing()).toBe(id);
    await restored("--yes");
    expect(await list()).toMatchObject([{ id, isTainted: true }]);
  });

  test("can still be recorded when the configuration states it, once", async () => {
    const id = await signing();
    const stated = `{ id = "${id}", root_until = "2026-11-21T12:00:00Z" }`;
    await operator.configure(`TAINTED_AUTHORITIES = [${stated}]`);
    const taint = () => authority("taint", id, "--root", "immediately", "--yes");
    await taint();
    await expect(taint()).rejects.toThrow(/has left the trust bundle already/);
  });
});

describe("a restore", () => {
  test("prints the age of the backup, its taints, and those of this store alone", async () => {
    const id = await signing();
    await exported();
    operator.now = new Date("2026-11-24T13:00:00Z");
    await authority("taint", id, "--root", "with-last-leaf", "--yes");
    const told = await restored("--yes");
    expect(told.split("\n").slice(0, 4)).toEqual([
      "The backup was written at 2026-11-21 12:00Z, 3 days ago.",
      "It holds 1 authority; tainted in it: none.",
      `Tainted here and not in it, and still after: ${id.slice(0, 12)}.`,
      "May sign at once: none.",
    ]);
    expect((await list()).find((each) => each.id === id)?.isTainted).toBe(true);
    expect(await signing()).not.toBe(id);
  });

  test("into an empty store keeps the taint that the configuration states", async () => {
    const id = await signing();
    await exported();
    await operator.configure(`TAINTED_AUTHORITIES = ["${id}"]`);
    await operator.moveTo("another");
    expect(await restored("--yes")).toContain(`still after: ${id.slice(0, 12)}.`);
    expect(await list()).toMatchObject([{ id, isTainted: true }]);
  });

  test("says that the authority signs at once that has taken a tainted one's place", async () => {
    await authority("rotate", "--yes");
    operator.now = new Date("2026-11-21T12:30:00Z");
    await authority("taint", await signing(), "--root", "immediately", "--yes");
    const next = await signing();
    await exported();
    await operator.moveTo("another");
    const told = await restored("--yes");
    expect(told).toContain(`May sign at once: ${next.slice(0, 12)}.`);
    expect(told).not.toContain("May sign later");
    expect(await signing()).toBe(next);
  });

  test.each([
    ["a store that holds records", "store", /There are authorities/],
    ["an empty store", "another", /^Restore it into the files in .*another\?/],
  ])("into %s asks, and writes nothing without an answer", async (_, place, question) => {
    await authority("rotate", "--yes");
    await exported();
    await operator.moveTo(place);
    const before = await list();
    await expect(restored()).rejects.toThrow(OperatorError);
    await expect(restored()).rejects.toThrow(question);
    expect(operator.terminal.printed).toMatch(/^May sign later: [0-9a-f]{12} from /m);
    expect(await list()).toEqual(before);
  });
});

describe("a restore of another CA's backup", () => {
  async function otherCa(): Promise<string> {
    await operator.moveTo("other");
    await authority("init", "--yes");
    return signing();
  }

  test.each([["restore"], ["init"]])(
    "that comes to be while %s asks is noticed after the answer",
    async (verb) => {
      await exported();
      await operator.moveTo("other");
      const asking = operator.terminalWith({ isTTY: true });
      const given = verb === "restore" ? [out(), "-i", operator.file("identity")] : [];
      const running = operator.run(authorityCommand, [verb, ...given], asking);
      const refused = expect(running).rejects.toThrow(
        /^(?:another CA, with|the store is not empty)/,
      );
      await eventually(async () => expect(asking.said).toContain("[y/N]"));
      const own = await otherCa();
      asking.type("y\r");
      await refused;
      expect(await list()).toMatchObject([{ id: own, signs: true }]);
    },
  );

  test("into a living store is refused, with the plan, and changes nothing", async () => {
    const theirs = await signing();
    await exported();
    const own = await otherCa();
    for (const more of [["--yes"], ["--dry-run"], []]) {
      const restoring = restored(...more);
      await expect(restoring).rejects.toThrow(
        `another CA, with ${own.slice(0, 12)}, is in the files in ${operator.file("other")} already`,
      );
      await expect(restoring).rejects.toBeInstanceOf(OperatorError);
    }
    expect(operator.terminal.printed).toContain(`May sign at once: ${theirs.slice(0, 12)}.`);
    expect(operator.terminal.printed).toContain(
      `The bundle of the store lacks the roots of: ${theirs.slice(0, 12)}.`,
    );
    expect(await list()).toMatchObject([{ id: own, signs: true }]);
  });

  test("is refused as well beside an authority that does not open", async () => {
    await exported();
    const own = await otherCa();
    operator.terminal.setVariable("KEK", randomKek());
    await expect(restored("--yes")).rejects.toThrow(`another CA, with ${own.slice(0, 12)}`);
  });

  test("is taken once the store's bundle has had its root for as long as a leaf lasts", async () => {
    const theirs = await signing();
    const told = await authority("show", theirs);
    await writeFile(operator.file("root.pem"), told.slice(told.indexOf("-----BEGIN")));
    await exported();
    await otherCa();
    await operator.run(rootCommand, ["add", operator.file("root.pem")]);
    await expect(restored("--yes")).rejects.toThrow("no long published root");
    operator.now = new Date("2027-02-19T11:59:59Z");
    await expect(restored("--yes")).rejects.toThrow("no long published root");
    operator.now = new Date("2027-02-19T12:00:00Z");
    await restored("--yes");
    expect((await list()).map(({ id }) => id)).toContain(theirs);
  });

  test("is taken where nothing of the store's own is in the bundle any more", async () => {
    const theirs = await signing();
    await exported();
    await otherCa();
    operator.now = new Date("2040-01-01T00:00:00Z");
    await restored("--yes");
    expect((await list()).map(({ id }) => id)).toContain(theirs);
  });
});

describe("authority show", () => {
  test("prints the certificate that OpenSSL and Node read, with its whole fingerprint", async () => {
    const id = await signing();
    const told = await authority("show", id.slice(0, 8));
    expect(told).toContain("phase         signing, signs now");
    const { fingerprint256, ca } = new X509Certificate(told.slice(told.indexOf("-----BEGIN")));
    expect(ca).toBe(true);
    expect(told).toContain(`# SHA-256 ${fingerprint256.replaceAll(":", "").toLowerCase()}`);
    const { certificates, signs } = JSON.parse(await authority("show", id, "--json"));
    expect([signs, certificates.length]).toEqual([true, 1]);
  });

  test("says that an authority verifies once its successor signs", async () => {
    const first = await signing();
    await authority("rotate", "--yes");
    const begins = (await list()).map(({ schedule }) => new Date(schedule.signsFrom).getTime());
    operator.now = new Date(Math.max(...begins));
    const phases = (await list()).map(
      ({ id, phase, signs }) => `${id === first} ${phase} ${signs}`,
    );
    expect(phases.toSorted()).toEqual(["false signing true", "true verifying false"]);
    expect((await authority("list")).match(/signing, now/g)).toHaveLength(1);
  });

  test("refuses an id that nobody has", async () => {
    await expect(authority("show", "0000")).rejects.toThrow(/no authority's id begins with 0000/);
  });
});
