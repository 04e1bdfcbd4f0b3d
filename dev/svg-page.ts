/** A picture for a page, in colours for light and for dark. */
interface SvgPage {
  readonly width: number;
  readonly height: number;
  readonly title: string;
  readonly description: string;
  /** Rules of the style sheet besides those of text, in light and in dark. */
  readonly light: readonly string[];
  readonly dark: readonly string[];
  /** Elements, one a line. */
  readonly body: string;
}

/** Writes a picture as SVG. */
export function svgPage({ width, height, title, description, light, dark, body }: SvgPage): string {
  const lines = (rules: readonly string[], indent: string): string =>
    rules.map((rule) => `${indent}${rule}\n`).join("");
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="title desc">
  <title id="title">${escaped(title)}</title>
  <desc id="desc">${escaped(description)}</desc>
  <style>
    .page { fill: #ffffff }
${lines(light, "    ")}    text { font-family: system-ui, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 13px; fill: #1f2328 }
    .name { font-size: 15px; font-weight: 600 }
    .note { font-size: 11px; fill: #57606a }
    .end { text-anchor: end }
    @media (prefers-color-scheme: dark) {
      .page { fill: #0d1117 }
${lines(dark, "      ")}      text { fill: #e6edf3 }
      .note { fill: #9da7b3 }
    }
  </style>
  <rect width="${width}" height="${height}" class="page"/>
${body}
</svg>
`;
}

/** Text for an element of SVG. */
export const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
