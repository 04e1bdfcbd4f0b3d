import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { filesAt, read } from "./page-files.ts";

const parts = read("docs/how-to/troubleshoot.md").split(/^## (?:Alerts|Events .+)$/m);
const [, alertsPart = "", ofCa = "", ofGateway = "", ofOthers = "", ofAgent = "", restPart = ""] =
  parts;

function sectionsOf(part: string): ReadonlyMap<string, string> {
  const [, ...sections] = part.split(/^### /m);
  return new Map(
    sections.map((section) => {
      const end = section.indexOf("\n");
      return [section.slice(0, end), section.slice(end).trim()];
    }),
  );
}

const alerts = sectionsOf(alertsPart);
/** The events of others than the part is about, or of several programs, say whose they are. */
const events = sectionsOf(ofOthers);
const programEvents = [ofCa, ofGateway, ofAgent].flatMap((part) => [...sectionsOf(part)]);
/** The events of the lists at the end, each with who logs it at which level. */
const quiet = new Map(
  restPart.split("\n").flatMap((row) => {
    const [, by = ""] = /^\| (\*[^*]+\*) \| /.exec(row) ?? [];
    const named = row.replaceAll(/\([^)]*\)/g, "").matchAll(/`([\w-]+)`/g);
    return [...named].map(([, name = ""]): [string, string] => [name, `${by} `]);
  }),
);
const names = [...read("src/foundation/event-names.ts").matchAll(/^ {2}\| "([a-z-]+)"/gm)].map(
  ([, name = ""]) => name,
);

describe("the runbook", () => {
  test("has a section or an item for every event that a program can log, and for no other", () => {
    expect(names.length).toBeGreaterThan(90);
    expect(parts).toHaveLength(7);
    const found = [...events.keys(), ...programEvents.map(([name]) => name), ...quiet.keys()];
    expect(found.toSorted()).toEqual(names.toSorted());
  });

  test("has a section for every event that is an error, because an alert leads there", () => {
    const errors = [...quiet].filter(([, text]) => /^\*[^*]*\berror\b/.test(text));
    expect(errors).toEqual([]);
  });

  test("has a section for every alert, and for no other", () => {
    const { groups } = parse(read("deploy/observability/rules.yaml"));
    const rules: readonly { alert?: string }[] = groups.flatMap(
      ({ rules: each }: { rules: readonly { alert?: string }[] }) => each,
    );
    expect([...alerts.keys()]).toEqual(rules.flatMap(({ alert }) => alert ?? []));
  });

  test("says in every section what it means and what to do", () => {
    const bare = [...alerts, ...events, ...programEvents].filter(
      ([, text]) => !/^.{20,}\n\n\*\*Do:\*\* ./.test(text),
    );
    expect(bare.map(([name]) => name)).toEqual([]);
  });

  test("says of every event of others or several who logs it, and of those in the lists at which level", () => {
    const strangers = [...events].filter(([, text]) => !/^\*[A-Za-z, ]+:\* /.test(text));
    const level = /^\*[A-Za-z, ]+ · (?:info|warning|error)\* /;
    strangers.push(...[...quiet].filter(([, text]) => !level.test(text)));
    expect(strangers.map(([name]) => name)).toEqual([]);
  });
});

/** A name that stands in no other file is one that nothing logs any more. */
test("every name of the list stands where something logs it", () => {
  const files = filesAt("src/**/*.ts", ["src/gen/**", "**/.tsc/**", "**/event-names.ts"]);
  const sources = files.map(read).join("\n");
  const written = (name: string): boolean =>
    sources.includes(`"${name}"`) ||
    sources.includes(`\`\${name}${name.replace(/^(?:roots|crls)/, "")}\``);
  expect(names.filter((name) => !written(name))).toEqual([]);
});
