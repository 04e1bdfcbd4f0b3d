import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parseDocument } from "yaml";
import {
  unsupportedVariables,
  variableNames,
} from "../../../src/agent/configuration/environment.ts";
import { parseConfiguration } from "../../../src/agent/configuration.ts";

const page = readFileSync("docs/reference/agent.md", "utf8");

/** The page's code blocks in this language. */
const blocks = (language: string): readonly string[] =>
  [...page.matchAll(new RegExp(`\`\`\`${language}\\n([^]*?)\`\`\``, "g"))].map(
    ([, text]) => text ?? "",
  );

test("lists every variable that the agent reads, and no other", () => {
  const table = page.slice(page.indexOf("## Configure it"), page.indexOf("### Other variables"));
  const rows = table.split("\n").filter((line) => line.startsWith("| `"));
  const named = rows.flatMap((row) => row.split("|")[1]?.match(/[A-Z][A-Z0-9_]+(?=`)/g) ?? []);
  // Kubernetes sets this variable, not an operator.
  expect(named.toSorted()).toEqual(
    variableNames.filter((name) => name !== "KUBERNETES_SERVICE_HOST").toSorted(),
  );
});

test("says which variables are refused, and which are ignored with a warning", () => {
  const table = page.slice(page.indexOf("### Other variables"), page.indexOf("## Different from"));
  const rows = table.split("\n").filter((line) => line.startsWith("| `"));
  const said = { refused: "refused", ignored: "ignored, with a warning" };
  for (const fate of ["refused", "ignored"] as const) {
    for (const name of Object.keys(unsupportedVariables[fate])) {
      const row = rows.find((each) => each.split("|")[1]?.includes(`\`${name}\``));
      expect(row?.split("|")[2], name).toMatch(said[fate]);
    }
  }
});

test("shows a pod with the environment of a sidecar", () => {
  const [manifest = ""] = blocks("yaml");
  const document = parseDocument(manifest);
  const pod = document.toJS();
  const [, agent] = pod.spec.containers;
  const fields: Record<string, string> = {
    "metadata.name": pod.metadata.name,
    "metadata.namespace": pod.metadata.namespace,
    "spec.serviceAccountName": pod.spec.serviceAccountName,
  };
  type Variable = { name: string; value?: string; valueFrom?: { fieldRef: { fieldPath: string } } };
  const environment = Object.fromEntries(
    agent.env.map(({ name, value, valueFrom }: Variable) => [
      name,
      value ?? fields[valueFrom?.fieldRef.fieldPath ?? ""],
    ]),
  );
  expect(document.errors).toEqual([]);
  expect(parseConfiguration(environment)).toMatchObject({
    subject: { mode: "sidecar", spiffeId: "spiffe://cluster.local/ns/shop/sa/cart" },
    ca: { address: { protocol: "connect" }, files: { rootFile: undefined } },
    bundleUrl: "https://ca.example.com/bundle.json",
  });
  const mounts = agent.volumeMounts.map(({ name }: { name: string }) => name);
  const volumes = pod.spec.volumes.map(({ name }: { name: string }) => name);
  expect(mounts).toEqual(volumes);
});

test("shows the environment of a machine", () => {
  const [file = ""] = blocks("ini");
  const pairs = file.split("\n").filter(Boolean);
  const environment = Object.fromEntries(pairs.map((pair) => pair.split("=", 2)));
  expect(parseConfiguration(environment)).toMatchObject({
    subject: { spiffeId: "spiffe://cluster.local/ns/vm/sa/billing" },
    output: { isAtomic: true },
  });
});
