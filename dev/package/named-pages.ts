import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";

const root = join(import.meta.dirname, "../..");

/** The files of a folder with one of these endings. */
async function textsIn(folder: string, ending: RegExp): Promise<readonly string[]> {
  const names = await readdir(join(root, folder), { recursive: true });
  const wanted = names.filter((name) => ending.test(name) && !/(?:^|\/)\.tsc\//.test(name));
  return Promise.all(wanted.map((name) => readFile(join(root, folder, name), "utf8")));
}

/** The pages that the sentences of programs, and the files that they write, name by `rampart docs`. */
export async function namedPages(): Promise<ReadonlyMap<string, string>> {
  const texts = [
    ...(await textsIn("src", /\.ts$/)),
    ...(await textsIn("dev", /\.ts$/)),
    ...(await textsIn("deploy", /^rampart-\w+\.service$/)),
    await readFile(join(root, "wrangler.toml"), "utf8"),
  ];
  const named = texts.flatMap((text) => [
    ...text.matchAll(/\brampart (?:-- )?docs ([a-z][a-z0-9-]*)/g),
  ]);
  const names = new Set(named.map(([, name = ""]) => name));
  const paths = await readdir(join(root, "docs"), { recursive: true });
  const pages = [...names].toSorted().map(async (name) => {
    const [path, another] = paths.filter((each) => basename(each) === `${name}.md`);
    if (path === undefined || another !== undefined) throw new Error(`one page is named ${name}`);
    return [name, await readFile(join(root, "docs", path), "utf8")] as const;
  });
  return new Map(await Promise.all(pages));
}
