import { join } from "node:path";
import { expect, test } from "vitest";
import { FollowerIndex } from "../../../../src/cli/verbs/log/follower-index.ts";
import { deletableBundles } from "../../../../src/cli/verbs/log/retention.ts";
import { createOperatorFolder, rampartHere } from "../../../testkit/programs/command-line.ts";
import { serveShards } from "../../../testkit/tlog/served-shards.ts";

test("a log whose old entries are deleted goes on for its copies, and says what a new reader lacks", async () => {
  const [folder, log] = [await createOperatorFolder(), await serveShards()];
  try {
    const type = (words: string) => rampartHere(folder, `log ${words}`);
    const follow = () =>
      type(`follow --url ${log.url} --dir ./copy --stale-after 876000h --to ./events.jsonl`);
    await log.append("0", 300);
    expect(await follow()).toMatchObject({ code: 0 });
    const now = new Date().toISOString();
    const deletable = await type(`deletable --url ${log.url}/0 --dir ./copy/0 --before ${now}`);
    expect([deletable.code, deletable.stdout]).toEqual([0, ""]);
    expect(deletable.stderr).toContain("rampart: 0 of 300 entries of ");
    expect(await type(`deletable --url ${log.url}/0 --before 90d`)).toMatchObject({ code: 2 });
    using index = new FollowerIndex(join(folder.path, "copy/0"));
    const later = "2026-11-21T13:00:00.000Z";
    expect([0, 44, 45].map((kept) => deletableBundles(index, later, kept))).toEqual([1, 1, 0]);
    // A young entry does not have the CA read less of what it published last.
    index.run("UPDATE entry SET at = ? WHERE idx = 299", later);
    expect([44, 45].map((kept) => deletableBundles(index, later, kept))).toEqual([1, 0]);
    index.run("UPDATE entry SET at = ? WHERE idx = 255", later);
    expect(deletableBundles(index, later, 0)).toBe(0);
    const { stored } = log.objects("0");
    for (const path of [...stored.keys()]) {
      if (path.startsWith("tile/entries/000")) stored.delete(path);
    }
    await log.restart("0");
    await log.append("0", 300);
    expect((await follow()).stderr).toContain("600 entries, 600 exported");
    const copy = `--url ${log.url}/0 --dir ./copy/0`;
    expect((await type(`search ${copy} -n 1000 --json`)).stdout.trimEnd().split("\n")).toHaveLength(
      600,
    );
    const serial = "0123456789abcdef0123456789abcdef01";
    expect(await type(`prove ${serial} ${copy}`)).toMatchObject({ code: 0 });
    for (const words of ["search", "check", "tail", `prove ${serial}`]) {
      const { code, stdout, stderr } = await type(`${words} --url ${log.url}/0`);
      expect([words, code, stdout]).toEqual([words, 4, ""]);
      expect(stderr).toContain("tile/entries/000 is not there, with the entries 0 to 255");
    }
    expect(await type(`check ${copy}`)).toMatchObject({ code: 4 });
  } finally {
    await log.end();
  }
});
