import { rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { addSeconds } from "../../../../src/pki/x509/validity.ts";
import { randomKek } from "../../../testkit/configuration.ts";
import { parseVerbLog } from "../../../testkit/log/log-lines.ts";
import { createCa, writeCacerts } from "../../../testkit/pki/plugged-in.ts";
import { createOperatorFolder, rampartHere } from "../../../testkit/programs/command-line.ts";
import { serveToml } from "../../../testkit/programs/rampart-process.ts";
import { temporaryFolder } from "../../../testkit/temporary-folder.ts";

const day = 86_400;
const now = new Date();
const ca = await createCa("O=cluster.local", {
  notBefore: addSeconds(now, -day),
  notAfter: addSeconds(now, 60 * day),
});

const importWarning = expect.objectContaining({
  event: "import-warning",
  level: "warning",
  detail: expect.stringContaining("can be used for 59 more days only"),
});
const adoption = expect.objectContaining({ event: "authority-adopted", level: "info" });

/** Imports an authority that expires in two months, and reads what the verb logged. */
async function importSoonExpiring(flags: string) {
  const source = await writeCacerts(await temporaryFolder(), ca, { chain: "" });
  const toml = serveToml(join(await temporaryFolder(), "store"), {
    ISSUERS: [{ issuer: "https://a.test" }],
  });
  const operator = await createOperatorFolder(toml);
  onTestFinished(() => rm(operator.path, { recursive: true, force: true }));
  const words = `authority import ${source} -c ${operator.config}${flags}`;
  const { code, stderr } = await rampartHere(operator, words, { KEK: randomKek() });
  return { code, lines: parseVerbLog(stderr) };
}

test("an import logs its warnings and what it did; a dry one its warnings alone", async () => {
  const done = await importSoonExpiring("");
  expect(done).toMatchObject({ code: 0, lines: expect.arrayContaining([importWarning, adoption]) });
  const dry = await importSoonExpiring(" --dry-run");
  expect(dry).toMatchObject({ code: 0, lines: expect.arrayContaining([importWarning]) });
  expect(dry.lines.map(({ level }) => level)).not.toContain("info");
});
