import { describe, expect, test } from "vitest";
import { parseXml } from "../../../src/node/stores/bucket-answers.ts";

describe("XML of S3", () => {
  const document = (children: readonly unknown[], text = "") => ({ name: "a", children, text });
  const element = (name: string, text = "") => ({ name, children: [], text });

  test.each([
    ["<a/>", document([])],
    ['<?xml version="1.0"?>\n<a x="1" y=\'2\'><b/>c</a>\n', document([element("b")], "c")],
    ["<s:a xmlns:s='urn:x'><s:b>c</s:b></s:a>", document([element("b", "c")])],
    ["<a>&lt;&amp;&#65;&#x1f511;&quot;</a>", document([], '<&A\u{1f511}"')],
  ])("%j is read", (text, expected) => {
    expect(parseXml(text)).toMatchObject(expected);
  });

  test.each([
    "",
    "a",
    "<a>",
    "</a>",
    "<a></b>",
    "<a/><b/>",
    "<a/>b",
    "<a><!-- c --></a>",
    "<a><![CDATA[c]]></a>",
    '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
    "<a>&b;</a>",
    "<a>&amp</a>",
    "<a>&#0;</a>",
    "<a>&#x110000;</a>",
    "<a b></a>",
    "<a b=c></a>",
    "<a></a b='c'>",
    "<a>".repeat(17) + "</a>".repeat(17),
  ])("%j is refused", (text) => {
    expect(() => parseXml(text)).toThrow(/something else than XML/);
  });
});
