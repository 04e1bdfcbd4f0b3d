import { execFileSync } from "node:child_process";
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { billOfMaterials, checksums, type Dependencies, notices, provenance } from "./evidence.ts";

const root = join(import.meta.dirname, "../..");

/** What only whoever publishes a release knows. */
interface Publisher {
  /** Where the repository is to be read, such as `https://git.example.com/mesh/rampart`. */
  readonly repository: string;
  /** Where somebody reports a weakness: a `mailto:` or an https address. */
  readonly contact: string;
}

/** A release to be made: its publisher, its version, and the commit of its tag. */
export interface Release extends Publisher {
  readonly version: string;
  readonly tag: string;
  readonly commit: string;
  /** When the commit was made. Everything in a release that has a date has this one. */
  readonly date: Date;
}

/** A sentence for whoever types `npm run release`. */
class Refusal extends Error {}

const usage =
  "type npm run release -- --repository https://… --contact mailto:… [--out out/release]";

function readArguments(): Publisher & { readonly out: string } {
  const text = { type: "string", default: "" } as const;
  const out = { type: "string", default: "out/release" } as const;
  const { values } = parseArgs({ options: { repository: text, contact: text, out } });
  const repository = values.repository.replace(/\/$/, "");
  if (!/^https:\/\/[^\s/@]+\/\S+[^/]$/.test(repository))
    throw new Refusal(`a release names its repository: ${usage}`);
  if (!/^(?:mailto:[^\s@]+@[^\s@]+|https:\/\/\S+)$/.test(values.contact))
    throw new Refusal(`a release says who hears of weaknesses: ${usage}`);
  return { repository, contact: values.contact, out: resolve(values.out) };
}

const git = (...words: readonly string[]): string =>
  execFileSync("git", words, { cwd: root, encoding: "utf8" }).trim();

/** Only what stands under its tag is released. */
async function readRelease(publisher: Publisher): Promise<Release> {
  const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const tag = `v${version}`;
  if (git("status", "--porcelain") !== "")
    throw new Refusal("the tree has changes: commit them, and tag that commit");
  if (!git("tag", "--points-at", "HEAD").split("\n").includes(tag))
    throw new Refusal(`this commit is not ${tag}: type git tag ${tag}, or git checkout ${tag}`);
  const [, newest = ""] =
    /^## (.+)$/m.exec(await readFile(join(root, "CHANGELOG.md"), "utf8")) ?? [];
  const [named, day = ""] = newest.split(", ");
  if (named !== version || !/^\d{4}-\d{2}-\d{2}$/.test(day))
    throw new Refusal(
      `CHANGELOG.md begins with "${newest}": its first section has to be ${version} with its date`,
    );
  const date = new Date(git("log", "-1", "--format=%cI"));
  return { ...publisher, version, tag, commit: git("rev-parse", "HEAD"), date };
}

/** Programs of a build see no more than this of the environment, so that two machines build the same. */
function buildEnvironment({ commit, date }: Release): NodeJS.ProcessEnv {
  const { PATH, HOME, npm_config_registry } = process.env;
  const SOURCE_DATE_EPOCH = String(date.getTime() / 1000);
  const fixed = { TZ: "UTC", LC_ALL: "C.UTF-8", SOURCE_DATE_EPOCH };
  const registry = npm_config_registry && { npm_config_registry };
  return { PATH, HOME, ...registry, ...fixed, RAMPART_COMMIT: commit.slice(0, 12) };
}

/** Builds everything from the files of the commit, in a folder of its own. */
async function build(release: Release, out: string, tree: string): Promise<void> {
  const env = buildEnvironment(release);
  const run = (program: string, ...words: readonly string[]): void => {
    execFileSync(program, words, { cwd: tree, env, stdio: ["ignore", "ignore", "inherit"] });
  };
  const archive = execFileSync("git", ["archive", release.commit], {
    cwd: root,
    maxBuffer: 2 ** 30,
  });
  execFileSync("tar", ["-x"], { cwd: tree, input: archive });
  const quiet = [
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--prefer-offline",
    "--loglevel=error",
  ];
  run("npm", "ci", ...quiet);
  await nameAddresses(release, tree);
  run("npm", "pack", "--pack-destination", out, "--loglevel=error");
  run("npm", "run", "executable", "--loglevel=error", "--", "x64", "arm64");
  for (const name of await readdir(join(tree, "out"))) {
    await copyFile(join(tree, "out", name), join(out, name));
  }
  packChart(release, out, tree);
  run("npm", "ci", "--omit=dev", "--omit=optional", ...quiet);
  const dependencies = await readDependencies(tree, env);
  const sbom = billOfMaterials(release, dependencies, process.version.slice(1));
  await writeFile(join(out, `rampart-${release.version}.cdx.json`), sbom);
  await writeFile(join(out, "THIRD_PARTY_NOTICES.txt"), await notices(dependencies, tree));
}

/** The libraries that the tree has installed for a user, as npm lists them. */
async function readDependencies(tree: string, env: NodeJS.ProcessEnv): Promise<Dependencies> {
  // npm leaves libraries out that the tools need as well, unless the tools are no dependencies.
  const path = join(tree, "package.json");
  const { name, version, license, description, dependencies } = JSON.parse(
    await readFile(path, "utf8"),
  );
  await writeFile(path, JSON.stringify({ name, version, license, description, dependencies }));
  await rm(join(tree, "package-lock.json"));
  await rm(join(tree, "node_modules/@rampart-ca"), { recursive: true, force: true });
  await rm(join(tree, "dev"), { recursive: true });
  const words = ["sbom", "--sbom-format=cyclonedx"];
  return JSON.parse(execFileSync("npm", words, { cwd: tree, env, encoding: "utf8" }));
}

/** Writes the publisher's addresses where the repository has none. npm shows its pages without the repository beside them. */
async function nameAddresses(release: Release, tree: string): Promise<void> {
  const { repository, contact, tag } = release;
  const manifest = join(tree, "package.json");
  const addresses = {
    homepage: `${repository}#readme`,
    bugs: { url: `${repository}/issues` },
    repository: { type: "git", url: `git+${repository}.git` },
  };
  const text = JSON.parse(await readFile(manifest, "utf8"));
  await writeFile(manifest, `${JSON.stringify({ ...text, ...addresses }, null, 2)}\n`);
  for (const page of ["README.md", "SECURITY.md", "CHANGELOG.md"]) {
    const path = join(tree, page);
    const words = await readFile(path, "utf8");
    await writeFile(path, withAddresses(words, { repository, contact, tag }));
  }
  const chart = join(tree, "deploy/helm/rampart/Chart.yaml");
  const lines = `home: ${repository}\nsources: [${repository}]\n`;
  await writeFile(chart, (await readFile(chart, "utf8")) + lines);
}

/** A page with absolute links, and the contact in place of the sentence that stands for it. */
function withAddresses(
  page: string,
  { repository, contact, tag }: Pick<Release, "repository" | "contact" | "tag">,
): string {
  const absolute = (path: string): string =>
    `${repository}/${/\.(?:svg|webp|png)$/.test(path) ? "raw" : "blob"}/${tag}/${path}`;
  return page
    .replace(placeOfContact, `to ${contact.replace("mailto:", "")}`)
    .replaceAll(/\]\((?!https?:|#)([^)]+)\)/g, (_, path: string) => `](${absolute(path)})`)
    .replaceAll(/\b(src|srcset)="(?!https?:)([^"]+)"/g, (_, name: string, path: string) => {
      return `${name}="${absolute(path)}"`;
    });
}

const placeOfContact =
  "to the maintainers, by the private vulnerability reporting of the place that hosts this repository";

/** The chart in the form of `helm package`, with the same octets each time. */
function packChart({ version, date }: Release, out: string, tree: string): void {
  const fixed = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"];
  const time = `--mtime=@${date.getTime() / 1000}`;
  const words = [...fixed, time, "--dereference", "-C", join(tree, "deploy/helm"), "-c", "rampart"];
  const tar = execFileSync("tar", words, { maxBuffer: 2 ** 27 });
  const file = join(out, `rampart-chart-${version}.tgz`);
  execFileSync("sh", ["-c", 'gzip -9n > "$0"', file], { input: tar });
}

/** Makes the release into a folder that is empty or does not exist. */
async function main(): Promise<void> {
  // The npm archive has the modes of the files that are built.
  process.umask(0o022);
  const { out, ...publisher } = readArguments();
  const release = await readRelease(publisher);
  await mkdir(out, { recursive: true });
  if ((await readdir(out)).length > 0) throw new Refusal(`${out} is not empty: type rm -r ${out}`);
  const tree = await mkdtemp(join(tmpdir(), "rampart-release-"));
  try {
    await build(release, out, tree);
  } finally {
    await rm(tree, { recursive: true });
  }
  const made = await checksums(out);
  await writeFile(join(out, `rampart-${release.version}.intoto.json`), provenance(release, made));
  const lines = (await checksums(out)).map(({ name, sha256 }) => `${sha256}  ${name}\n`);
  await writeFile(join(out, "SHA256SUMS"), lines.join(""));
  process.stdout.write(`${lines.join("")}wrote ${out}\n`);
}

if (import.meta.main) {
  await main().catch((error: unknown) => {
    if (!(error instanceof Refusal)) throw error;
    console.error(`release: ${error.message}`);
    process.exitCode = 1;
  });
}
