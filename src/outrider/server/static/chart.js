// Line charts as SVG: axes with round numbers, curves, a level, a marked place.

const SPACE = "http://www.w3.org/2000/svg";
const MOST_WIDTH = 640, LEAST_WIDTH = 260, HEIGHT = 260;
const EDGE = { left: 44, right: 16, top: 14, bottom: 40 };

function put(parent, tag, attributes, text) {
  const element = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

// Round steps that cut a range into about so many parts.
export function ticks(low, high, parts) {
  const raw = (high - low) / parts || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * ([1, 2, 2.5, 5, 10].find((one) => one * power >= raw) ?? 10);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + step * 1e-9; at += 1) found.push(Number((at * step).toFixed(10)));
  return found;
}

// chart: {x: {low, high, log, name}, y: {name}, curves: [{points, name, second}], level, mark: {at, says}, point: [x, y]}
export function draw(place, chart) {
  const svg = document.createElementNS(SPACE, "svg");
  // As wide as there is room, so that letters keep their size on a phone.
  const width = Math.max(LEAST_WIDTH, Math.min(MOST_WIDTH, place.clientWidth || MOST_WIDTH));
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", chart.says);
  const { x } = chart;
  const scale = x.log ? Math.log2 : (value) => value;
  const values = chart.curves.flatMap((curve) => curve.points.map((point) => point[1]));
  const top = Math.max(1.2, ...values) * 1.06;
  const across = (value) =>
    EDGE.left + ((scale(value) - scale(x.low)) / (scale(x.high) - scale(x.low))) * (width - EDGE.left - EDGE.right);
  const up = (value) => HEIGHT - EDGE.bottom - (value / top) * (HEIGHT - EDGE.top - EDGE.bottom);
  axes(svg, chart, across, up, top, width);
  for (const curve of chart.curves) {
    const path = curve.points.map(([a, b], index) => `${index ? "L" : "M"}${across(a).toFixed(1)} ${up(b).toFixed(1)}`);
    put(svg, "path", { class: `curve${curve.second ? " second" : ""}`, d: path.join("") });
  }
  marks(svg, chart, across, up, width);
  place.replaceChildren(svg);
}

function axes(svg, chart, across, up, top, width) {
  const { x, y } = chart;
  for (const value of ticks(0, top, 5)) {
    put(svg, "line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: up(value), y2: up(value) });
    put(svg, "text", { x: EDGE.left - 8, y: up(value) + 4, "text-anchor": "end" }, value);
  }
  const places = x.log ? powers(x.low, x.high) : ticks(x.low, x.high, width > 400 ? 8 : 5);
  for (const value of places) {
    put(svg, "text", { x: across(value), y: HEIGHT - EDGE.bottom + 18, "text-anchor": "middle" }, value);
  }
  put(svg, "text", { class: "name", x: width - EDGE.right, y: HEIGHT - 6, "text-anchor": "end" }, x.name);
  put(svg, "text", { class: "name", x: EDGE.left + 6, y: EDGE.top + 4 }, y.name);
  if (chart.level !== undefined) {
    const height = up(chart.level);
    put(svg, "line", { class: "level", x1: EDGE.left, x2: width - EDGE.right, y1: height, y2: height });
  }
}

function powers(low, high) {
  const found = [];
  for (let value = low; value <= high; value *= 2) found.push(value);
  return found;
}

function marks(svg, chart, across, up, width) {
  if (chart.mark) {
    const place = across(chart.mark.at);
    put(svg, "line", { class: "mark", x1: place, x2: place, y1: EDGE.top, y2: HEIGHT - EDGE.bottom });
    const right = place > width * 0.65;
    put(svg, "text", {
      class: "marked", x: place + (right ? -6 : 6), y: HEIGHT - EDGE.bottom - 8, "text-anchor": right ? "end" : "start",
    }, chart.mark.says);
  }
  if (chart.point) put(svg, "circle", { class: "point", cx: across(chart.point[0]), cy: up(chart.point[1]), r: 6 });
}
