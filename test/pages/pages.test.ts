import { existsSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { describe, expect, test } from "vitest";
import { filesAt, read, root } from "./page-files.ts";

const pages = filesAt(["*.md", "{docs,test,bench}/**/*.md"]);

/** A file and an anchor in it, as a page's link names them. */
interface Reference {
  readonly path: string;
  readonly anchor: string | undefined;
}

function linksOf(page: string): Reference[] {
  const targets = [...read(page).matchAll(/\]\((?!https?:)([^)\s]*)\)/g)].map(([, to = ""]) => to);
  const sources = [...read(page).matchAll(/\bsrc="([^"]+)"/g)].map(([, to = ""]) => to);
  return [...targets, ...sources].map((target) => {
    const [file = "", anchor] = target.split("#");
    return { path: file === "" ? page : normalize(join(dirname(page), file)), anchor };
  });
}

const folders = "src|test|docs|dev|bench|proto|deploy";

/** Paths of the repository between back quotes; `docs/*` and the like name no file. */
function quotedPaths(page: string): string[] {
  const quoted = read(page).matchAll(new RegExp(`\`((?:${folders})/[\\w./-]*)\``, "g"));
  return [...quoted].map(([, path = ""]) => path);
}

/** GitHub's anchors of a page's headings. */
function anchorsOf(page: string): string[] {
  const headings = [...read(page).matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) => heading);
  return headings.map((heading) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );
}

describe.each(pages)("%s", (page) => {
  test("names only files that exist", () => {
    const paths = [...linksOf(page).map(({ path }) => path), ...quotedPaths(page)];
    expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });

  test("links only to headings that exist", () => {
    const broken = linksOf(page).filter(
      ({ path, anchor }) =>
        anchor !== undefined && existsSync(join(root, path)) && !anchorsOf(path).includes(anchor),
    );
    expect(broken).toEqual([]);
  });

  test("has no row of a table apart from its head", () => {
    const tables = read(page).match(/(?:^\|.*\n)+/gm) ?? [];
    const apart = tables.filter((table) => !/^\|.*\n\|[ :|-]+\|\n/.test(table));
    expect(apart).toEqual([]);
  });
});

test("the index of the docs names every page", () => {
  const linked = new Set(linksOf("docs/README.md").map(({ path }) => path));
  const docs = pages.filter((page) => page.startsWith("docs/") && page !== "docs/README.md");
  expect(docs.filter((page) => !linked.has(page))).toEqual([]);
});

test("no page has npx fetch the package of that name, which is somebody else's", () => {
  const fetching = pages.filter((page) => /\bnpx (?:-\S+ )*rampart\b/.test(read(page)));
  expect(fetching).toEqual([]);
});

/** What a program writes into a page. */
const writtenParts = /<!-- (outages|findings|alerts|export) -->[\s\S]*<!-- end of \1 -->/g;

test("the docs have at most 42,000 words, those that a program writes aside", () => {
  const byHand = pages.filter((page) =>
    /^docs\/(?!reference\/(?:cli|metric-names)\.md)/.test(page),
  );
  // The bars of a table are none.
  const words = byHand.flatMap((page) =>
    read(page)
      .replace(writtenParts, "")
      .match(/\S*[\p{L}\p{N}]\S*/gu),
  );
  expect(words.length).toBeLessThanOrEqual(42_000);
});

test.each(filesAt("docs/pictures/*.svg"))(
  "%s says what it shows, has dark colours, and stands on a page",
  (picture) => {
    const svg = read(picture);
    expect(svg).toMatch(/aria-labelledby="title desc"/);
    expect(svg).toMatch(/<title id="title">[^<]+<\/title>\s*<desc id="desc">[^<]+<\/desc>/);
    expect(svg).toMatch(/@media \(prefers-color-scheme: dark\)/);
    expect(svg).not.toMatch(/<script|<foreignObject|href="http|@import|url\(http/i);
    const link = `pictures/${picture.split("/").at(-1)}" alt="`;
    expect(pages.filter((page) => read(page).includes(link))).not.toEqual([]);
  },
);

describe("ARCHITECTURE.md", () => {
  const text = read("ARCHITECTURE.md");

  test("names functions that are in the files beside them", () => {
    const steps = [...text.matchAll(/\]\((src\/[^)]+\.ts)\) `([\w.]+)`/g)];
    expect(steps.length).toBeGreaterThan(40);
    const strangers = steps.filter(([, file = "", name = ""]) => {
      const isThere = (part: string) => new RegExp(`\\b${part}\\b`).test(read(file));
      return existsSync(join(root, file)) && !name.split(".").every(isThere);
    });
    expect(strangers.map(([, file, name]) => `${file} ${name}`)).toEqual([]);
  });

  const layers = filesAt("src/*/tsconfig.json").map((path) => path.split("/")[1] ?? "");
  const rows = [
    ...text.matchAll(/^\| \[`src\/(\w+)`\]\(src\/\w+\) \|[^|]+\|[^|]+\| ([^|]+) \|$/gm),
  ];

  function namesIn(imports: string, layer: string): string[] {
    if (imports === "nothing") return [];
    if (imports === "every other layer") return layers.filter((each) => each !== layer);
    return imports.split(", ");
  }

  test("has a row for each layer, below those that it may import", () => {
    const named = rows.map(([, layer]) => layer);
    expect(named.toSorted()).toEqual(layers.toSorted());
    for (const [i, [, layer = "", imports = ""]] of rows.entries()) {
      for (const each of namesIn(imports, layer)) expect(named.slice(0, i)).toContain(each);
    }
  });

  test.each(rows.map(([, layer = "", imports = ""]) => [layer, imports]))(
    "says of %s what its tsconfig.json references",
    (layer, imports) => {
      const references = JSON.parse(read(`src/${layer}/tsconfig.json`)).references as {
        path: string;
      }[];
      const referenced = references.map(({ path }) => path.replace("../", ""));
      expect(referenced.toSorted()).toEqual(namesIn(imports, layer).toSorted());
    },
  );

  const [, libraries = ""] = text.split(/^## (?=Libraries$)/m);
  const libraryRows = [...libraries.matchAll(/^\| `([^`]+)` \|[^|]+\|([^|]+)\|$/gm)];
  const sources = filesAt("src/**/*.ts", ["**/.tsc/**"]);

  test("has a row for each library that Rampart installs", () => {
    const { dependencies } = JSON.parse(read("package.json"));
    const named = libraryRows.map(([, library]) => library);
    expect(named.toSorted()).toEqual(Object.keys(dependencies).toSorted());
  });

  test.each(libraryRows.map(([, library = "", places = ""]) => [library, places]))(
    "says where %s enters",
    (library, cell) => {
      const imported = new RegExp(`(?:\\bfrom|^import|\\bimport\\() ?"${library}(?:/[^"]*)?"`, "m");
      const importing = sources.filter((file) => imported.test(read(file)));
      const places = [...cell.matchAll(/\]\(([^)]+)\)/g)].map(([, place = ""]) => place);
      const isBelow = (file: string, place: string) => `${file}/`.startsWith(`${place}/`);
      const unnamed = importing.filter((file) => !places.some((place) => isBelow(file, place)));
      const idle = places.filter((place) => !importing.some((file) => isBelow(file, place)));
      expect({ unnamed, idle }).toEqual({ unnamed: [], idle: [] });
    },
  );

  test("has every layer in its picture", () => {
    const picture = read("docs/pictures/architecture.svg");
    const missing = layers.filter((layer) => !picture.includes(`>${layer}</text>`));
    expect(missing).toEqual([]);
  });
});

describe("sources and settings", () => {
  const patterns = [
    "{src,dev,bench,test}/**/*.ts",
    "deploy/**/*.{yaml,service,tpl,txt,toml}",
    "deploy/Dockerfile",
    "*.{ts,toml,json}",
  ];
  const isForeign = (file: string): boolean =>
    file.startsWith("src/gen/") || file.includes("/.tsc/") || file === "test/pages/pages.test.ts";
  const files = filesAt(patterns).filter((file) => !isForeign(file));

  function citationsIn(file: string, form: RegExp): string[] {
    return [...read(file).matchAll(form)].map(([citation]) => citation);
  }

  test("cite only pages and headings that exist", () => {
    const page = /(?<![\w./])(?:docs\/[\w./-]+|[A-Z]{4,})\.md(?:#[\w-]+)?/g;
    const citations = files.flatMap((file) => citationsIn(file, page).map((to) => [file, to]));
    expect(citations.length).toBeGreaterThan(10);
    const broken = citations.filter(([, to = ""]) => {
      const [path = "", anchor] = to.split("#");
      if (!existsSync(join(root, path))) return true;
      return anchor !== undefined && !anchorsOf(path).includes(anchor);
    });
    expect(broken).toEqual([]);
  });

  test("cite no page from outside of the repository", () => {
    const outside = /\bfacts,? §[\d.]*|\b(?:RE)?DESIGN §[\d.]*|\b(?:REDESIGN|STYLE)\b/g;
    const broken = files.filter((file) => citationsIn(file, outside).length > 0);
    expect(broken).toEqual([]);
  });
});

test("the page that introduces npm start says which header of the platform a caller can forge there", () => {
  expect(read("docs/tutorials/first-certificate.md")).toMatch(
    /`npm start` runs `wrangler dev`, which believes [^.]*`MF-CF-Blob`/,
  );
});
