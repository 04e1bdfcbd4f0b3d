import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { blocksOf, isTyped } from "../../pages/shell-blocks.ts";
import { run, runWell } from "../../testkit/programs/child-process.ts";
import type { Row } from "../outcome-table.ts";
import { type Installation, installedPackages } from "./installation.ts";

const root = join(import.meta.dirname, "../../..");
const repository = "https://git.example.com/mesh/rampart";
const publisher = ["--repository", repository, "--contact", "mailto:security@example.com"];

/** What a publisher does with the tag of a release, and what a user checks. */
export function releaseRows(installation: Installation, folder: string): readonly Row[] {
  const clone = join(folder, "clone");
  const made = join(folder, "made");
  const git = (...words: readonly string[]): Promise<string> => {
    const author = ["-c", "user.name=Test", "-c", "user.email=test@example.com"];
    return runWell("git", ["-C", clone, ...author, ...words]);
  };
  const release = (...words: readonly string[]): ReturnType<typeof run> =>
    run(process.execPath, ["dev/package/release.ts", ...words], {
      folder: clone,
      timeoutSeconds: 600,
    });
  const refuse = async (why: RegExp, ...words: readonly string[]): Promise<void> => {
    const { exitCode, stderr } = await release(...words);
    assert.match(stderr, why);
    assert.deepEqual([exitCode, stderr.split("\n").length], [1, 2], stderr);
  };
  const file = (name: string): Promise<string> => readFile(join(made, name), "utf8");
  const changelog = join(clone, "CHANGELOG.md");
  const { version } = installation;
  return [
    [
      "refuses a release without addresses, of a changed tree, without its tag or its changes",
      async () => {
        await runWell("git", ["clone", "-q", "--depth", "1", `file://${root}`, clone]);
        await refuse(/names its repository: type npm run release/);
        await refuse(/names its repository/, "--repository", "http://git.example.com/mesh/rampart");
        await refuse(/says who hears of weaknesses/, "--repository", repository);
        await refuse(/says who hears/, "--repository", repository, "--contact", "somebody");
        const text = await readFile(changelog, "utf8");
        await writeFile(changelog, text.replace(/^## .+$/m, "## Not released yet"));
        await refuse(/the tree has changes/, ...publisher);
        await git("commit", "-qam", "Not released yet");
        await refuse(new RegExp(`not v${version}: type git tag v${version}`), ...publisher);
        await git("tag", `v${version}`);
        await refuse(/CHANGELOG.md begins with "Not released yet"/, ...publisher);
      },
    ],
    [
      "makes the same octets twice",
      async () => {
        const text = await readFile(changelog, "utf8");
        await writeFile(changelog, text.replace(/^## .+$/m, `## ${version}, 2026-12-01`));
        await git("commit", "-qam", "Release");
        await git("tag", "-d", `v${version}`);
        const [block, ...others] = blocksOf("docs/reference/releases.md").filter(isTyped);
        assert(block && others.length === 0, "the page has one block");
        const environment = {
          PATH: `${dirname(process.execPath)}:${process.env["PATH"]}`,
          REPOSITORY: repository,
          CONTACT: publisher[3] ?? "",
        };
        // Whoever makes a release may have another umask.
        await runWell("bash", ["-ec", `umask 077\n${block.text}`], {
          folder: clone,
          environment,
          timeoutSeconds: 600,
        });
        const { exitCode, stderr } = await release(...publisher, "--out", made);
        assert.equal(exitCode, 0, stderr);
        const sums = await file("SHA256SUMS");
        const usual = join(clone, "out/release/SHA256SUMS");
        assert.equal(await readFile(usual, "utf8"), sums);
        assert.equal(sums.split("\n").length, 8, sums);
        await refuse(/is not empty: type rm -r/, ...publisher, "--out", made);
      },
    ],
    [
      "its checksums, provenance and bill of materials are those of the files",
      async () => {
        await runWell("sha256sum", ["--check", "--strict", "SHA256SUMS"], { folder: made });
        const { subject, predicate } = JSON.parse(await file(`rampart-${version}.intoto.json`));
        for (const { name, digest } of subject) {
          const octets = await readFile(join(made, name));
          assert.equal(createHash("sha256").update(octets).digest("hex"), digest.sha256, name);
        }
        assert.equal(subject.length, 6);
        const [{ digest }] = predicate.buildDefinition.resolvedDependencies;
        assert.equal(digest.gitCommit, (await git("rev-parse", "HEAD")).trim());
        const { components } = JSON.parse(await file(`rampart-${version}.cdx.json`));
        const named = components.map(({ name }: { readonly name: string }) => name);
        const installed = await installedPackages(installation.folder);
        const expected = installed.filter((name) => name !== "@rampart-ca/rampart");
        assert.deepEqual(named.toSorted(), [...expected, "node"].toSorted());
        const texts = await file("THIRD_PARTY_NOTICES.txt");
        for (const name of named) assert.match(texts, new RegExp(`^${name} \\S+$|^Node.js`, "m"));
      },
    ],
    [
      "names the publisher's addresses, and its pages link to the tag",
      async () => {
        const archive = join(made, `rampart-ca-rampart-${version}.tgz`);
        const page = (name: string): Promise<string> =>
          runWell("tar", ["-xzOf", archive, `package/${name}`]);
        const manifest = JSON.parse(await page("package.json"));
        assert.equal(manifest.repository.url, `git+${repository}.git`);
        assert.match(await page("SECURITY.md"), /privately to security@example\.com, and not/);
        const readme = await page("README.md");
        assert.doesNotMatch(readme, /\]\((?!https:)|(?:src|srcset)="(?!https:)/);
        assert.match(readme, new RegExp(`${repository}/blob/v${version}/docs/`));
        const program = join(made, `rampart-${process.platform}-${process.arch}`);
        const commit = (await git("rev-parse", "HEAD")).slice(0, 12);
        assert.equal(await runWell(program, ["--version"]), `${version} (${commit})\n`);
      },
    ],
  ];
}
