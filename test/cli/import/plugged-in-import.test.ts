import { rm } from "node:fs/promises";
import { expect, test } from "vitest";
import { importPluggedIn } from "../../../src/cli/import/plugged-in-import.ts";
import { followPluggedIn } from "../../../src/node/serve/plugged-in.ts";
import { parseServeConfiguration } from "../../../src/node/serve/serve-configuration.ts";
import { addSeconds } from "../../../src/pki/x509/validity.ts";
import { randomKek, startCa } from "../../testkit/ca/running-ca.ts";
import { openStore, signerOf } from "../../testkit/ca/tainted-ca.ts";
import { createCa, type TestCa, writeFolder } from "../../testkit/pki/plugged-in.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const day = 86_400;
const root = await createCa("O=company,CN=root");

const write = (folder: string, ca: Pick<TestCa, "pem" | "keyPem">) =>
  writeFolder(folder, {
    "ca-cert.pem": ca.pem,
    "ca-key.pem": ca.keyPem,
    "cert-chain.pem": ca.pem,
    "root-cert.pem": root.pem,
  });

test("imports the first CA of a directory, each change once, and says in one line why not", async () => {
  const ca = await startCa({
    AUTHORITY_ROOT: "offline",
    MAX_WORKLOAD_CERT_TTL: `${10 * day}s`,
    PROPAGATION_INTERVAL: "600s",
  });
  const folder = await temporaryFolder();
  const follow = followPluggedIn(folder, importPluggedIn, ca.log);
  const look = () => follow(ca.mint, ca.now());
  const intermediate = () =>
    createCa(`O=mesh,CN=${Math.random()}`, {
      issuer: root,
      notAfter: addSeconds(ca.now(), 365 * day),
    });
  const refusals = () => ca.log.operations.filter(({ event }) => event === "plugged-in-refused");
  await look();
  await look();
  expect(refusals()).toEqual([
    expect.objectContaining({ level: "warning", detail: expect.stringContaining("holds no CA") }),
  ]);
  const first = await intermediate();
  await write(folder, first);
  await look();
  await look();
  const [id] = (await openStore(ca.mint)).authorities.map((each) => each.id);
  expect(await signerOf(ca)).toBe(id);
  ca.pass(100 * day);
  const second = await intermediate();
  // As when the certificate is replaced before the key is.
  await write(folder, { ...second, keyPem: first.keyPem });
  await look();
  expect(refusals().at(-1)?.detail).toContain("the cert does not match the key");
  await write(folder, second);
  await look();
  ca.pass(600);
  expect((await openStore(ca.mint)).authorities).toHaveLength(2);
  expect(await signerOf(ca)).not.toBe(id);
  await rm(folder, { recursive: true });
  await look();
  expect(await signerOf(ca)).not.toBe(id);
});

test("a configuration may follow a directory only where a person is the one who renews", () => {
  const parse = (AUTHORITY_ROOT: string) =>
    parseServeConfiguration({
      AUTHORITY_ROOT,
      STORE_DIRECTORY: "/var/lib/rampart",
      IMPORT_DIRECTORY: "/etc/cacerts",
      ISSUERS: [{ issuer: "https://a.test" }],
      KEK: randomKek("k1"),
    });
  expect(parse("offline").importDirectory).toBe("/etc/cacerts");
  expect(() => parse("self")).toThrow("IMPORT_DIRECTORY: is for AUTHORITY_ROOT");
});
