import { readdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { issuedCertificatesIn } from "../../../src/node/log/issued-certificates.ts";
import type { Bytes } from "../../../src/pki/encoding/bytes.ts";
import { temporaryFolder } from "../../testkit/temporary-folder.ts";

const der = (octet: number): Bytes => new Uint8Array([octet]);

test("of several certificates for one request the first is kept, for every process and after a restart", async () => {
  const folder = await temporaryFolder();
  const [one, two] = [issuedCertificatesIn(folder), issuedCertificatesIn(folder)];
  expect(await one.read("a/1")).toBeUndefined();
  const kept = await Promise.all([one, two, one, two].map((each, i) => each.create("a/1", der(i))));
  expect(new Set(kept.map((each) => each?.[0])).size).toBe(1);
  expect(await issuedCertificatesIn(folder).read("a/1")).toEqual(kept[0]);
  await two.remove("a/1");
  await two.remove("a/1");
  expect(await one.create("a/1", der(9))).toEqual(der(9));
  expect(await readdir(join(folder, "issued/a"))).toEqual(["1"]);
});

test("the oldest are removed, of the issuer that has too many", async () => {
  const folder = await temporaryFolder();
  const issued = issuedCertificatesIn(folder, 3);
  await issued.create("other/0", der(0));
  for (let i = 0; i < 5; i++) {
    await issued.create(`a/${i}`, der(i));
    // The second was written last.
    const at = i === 1 ? 1000 : i;
    await utimes(join(folder, `issued/a/${i}`), at, at);
  }
  await writeFile(join(folder, "issued/a/.5.left-by-a-killed-process"), "");
  await utimes(join(folder, "issued/a/.5.left-by-a-killed-process"), 0, 0);
  await issuedCertificatesIn(folder, 3).create("a/6", der(6));
  expect((await readdir(join(folder, "issued/a"))).toSorted()).toEqual(["1", "4", "6"]);
  expect(await readdir(join(folder, "issued/other"))).toEqual(["0"]);
});
