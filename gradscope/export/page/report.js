"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const colours = ["#4269d0", "#e07b00", "#d1495b", "#3a9188", "#6a994e", "#9467bd", "#8c564b", "#c2185b", "#7f7f7f", "#17a2b8"];
  const dashes = ["solid", "dot", "dash", "dashdot", "longdash"];
  const symbols = ["circle", "square", "diamond", "triangle-up", "x"];
  const config = { displaylogo: false, displayModeBar: "hover", responsive: true, modeBarButtonsToRemove: ["lasso2d", "select2d"] };
  const base = { font: { family: "system-ui, sans-serif", size: 12 }, margin: { l: 60, r: 20, t: 40, b: 50 } };

  const place = (section) => ({
    choice: document.querySelector(`#${section} .choice`),
    plots: document.querySelector(`#${section} .plots`),
  });
  const hide = (section) => { document.getElementById(section).hidden = true; };
  const unique = (items) => [...new Set(items)];

  // A name is OPTIMIZER REST: one colour for each first word, one dash or mark for each rest.
  const style = (items) => {
    const first = unique(items.map((item) => item.name.split(" ")[0]));
    const rest = unique(items.map((item) => item.name.split(" ").slice(1).join(" ")));
    return (item) => ({
      colour: colours[first.indexOf(item.name.split(" ")[0]) % colours.length],
      turn: rest.indexOf(item.name.split(" ").slice(1).join(" ")),
    });
  };

  const select = (parent, text, options, act) => {
    const label = document.createElement("label");
    const box = document.createElement("select");
    label.append(`${text} `, box);
    for (const [value, name] of options) {
      const option = document.createElement("option");
      option.value = value;
      option.textContent = name;
      box.append(option);
    }
    box.addEventListener("change", () => act(box.value));
    parent.append(label);
  };

  const panes = (plots, groups) => groups.map((group) => {
    const pane = document.createElement("div");
    plots.append(pane);
    return [group, pane];
  });

  const heat = () => {
    const { choice, plots } = place("heat");
    if (!data.heat.length) return hide("heat");
    plots.classList.add("single");
    const pane = document.createElement("div");
    plots.append(pane);
    const draw = (index) => {
      const one = data.heat[index];
      Plotly.react(pane, [{
        type: "heatmap", x: one.columns, y: one.rows, z: one.shades, text: one.texts, customdata: one.why,
        texttemplate: "%{text}", hovertemplate: "%{y}, %{x}: %{text}<br>%{customdata}<extra></extra>",
        colorscale: [[0, "#2f6fb3"], [0.5, "#a9c9e8"], [1, "#f6f1e7"]], zmin: 0, zmax: 1, showscale: false,
        xgap: 2, ygap: 2, hoverongaps: true,
      }], {
        ...base, plot_bgcolor: "#e6e6e6", height: 110 + 30 * one.rows.length, margin: { l: 190, r: 20, t: 60, b: 20 },
        xaxis: { side: "top", type: "category", showgrid: false, title: { text: one.across } },
        yaxis: { autorange: "reversed", type: "category", showgrid: false },
      }, config);
    };
    select(choice, "number", data.heat.map((one, index) => [index, one.title]), draw);
    draw(0);
  };

  const curves = () => {
    const { choice, plots } = place("curves");
    if (!data.curves.length) return hide("curves");
    const groups = panes(plots, unique(data.curves.map((one) => one.group)));
    const known = Object.entries(data.budgets).filter(([name]) => data.curves.some((one) => one[name]));
    let against = known[0][0];
    let scale = "linear";
    const draw = () => {
      for (const [group, pane] of groups) {
        const items = data.curves.filter((one) => one.group === group);
        const look = style(items);
        Plotly.react(pane, items.filter((one) => one[against]).map((one) => ({
          type: "scatter", mode: "lines", name: one.name, x: one[against], y: one.loss,
          line: { color: look(one).colour, dash: dashes[look(one).turn % dashes.length], width: 1.6 },
        })), {
          ...base, height: 420, title: { text: group }, hovermode: "closest", legend: { font: { size: 10 } },
          xaxis: { title: { text: data.budgets[against] }, rangemode: "tozero" },
          yaxis: { title: { text: "loss" }, type: scale },
        }, config);
      }
    };
    select(choice, "against", known, (value) => { against = value; draw(); });
    select(choice, "scale", [["linear", "linear"], ["log", "log"]], (value) => { scale = value; draw(); });
    draw();
  };

  const front = () => {
    const { choice, plots } = place("front");
    const axes = data.front.axes;
    if (axes.length < 2) return hide("front");
    const title = Object.fromEntries(axes.map((axis) => [axis.name, axis.title]));
    const scale = Object.fromEntries(axes.map((axis) => [axis.name, axis.scale]));
    const scaled = (one, name) => (one.values[name] === null ? null : one.values[name] / scale[name]);
    const groups = panes(plots, unique(data.front.cells.map((one) => one.group)));
    let [x, y] = [axes[0].name, axes[1].name];
    const draw = () => {
      for (const [group, pane] of groups) {
        const items = data.front.cells.filter((one) => one.group === group);
        const look = style(items);
        Plotly.react(pane, items.map((one) => ({
          type: "scatter", mode: "markers", name: one.name, x: [scaled(one, x)], y: [scaled(one, y)],
          hovertemplate: `${one.name}<br>${axes.map((axis) => `${axis.title.replace(/ \(.*/, "")} ${one.texts[axis.name]}`).join("<br>")}<extra></extra>`,
          marker: {
            color: look(one).colour, size: one.front ? 12 : 9,
            symbol: symbols[look(one).turn % symbols.length] + (one.front ? "" : "-open"),
          },
        })), {
          ...base, height: 420, title: { text: group }, hovermode: "closest", legend: { font: { size: 10 } },
          xaxis: { title: { text: title[x] }, rangemode: "tozero" }, yaxis: { title: { text: title[y] }, rangemode: "tozero" },
        }, config);
      }
    };
    const turn = (names, first) => [...names].sort((a, b) => (b[0] === first) - (a[0] === first));
    const names = axes.map((axis) => [axis.name, axis.title]);
    select(choice, "across", turn(names, x), (value) => { x = value; draw(); });
    select(choice, "up", turn(names, y), (value) => { y = value; draw(); });
    draw();
  };

  const memory = () => {
    const { plots } = place("memory");
    if (!data.memory.length) return hide("memory");
    const mib = (bytes) => (bytes === null ? null : bytes / 2 ** 20);
    for (const [group, pane] of panes(plots, unique(data.memory.map((one) => one.group)))) {
      const items = data.memory.filter((one) => one.group === group);
      const names = items.map((one) => one.name);
      const parts = Object.keys(items[0].parts);
      Plotly.react(pane, [
        ...parts.map((part, index) => ({
          type: "bar", orientation: "h", name: part.replaceAll("_", " "), y: names, x: items.map((one) => mib(one.parts[part])),
          marker: { color: colours[index % colours.length] }, hovertemplate: "%{y}: %{x:.2f} MiB<extra>%{fullData.name}</extra>",
        })),
        {
          type: "scatter", mode: "markers", name: "peak", y: names, x: items.map((one) => mib(one.peak)),
          marker: { symbol: "line-ns-open", size: 14, color: "#111", line: { width: 2 } }, hovertemplate: "%{y}: peak %{x:.2f} MiB<extra></extra>",
        },
      ], {
        ...base, barmode: "stack", height: 140 + 22 * items.length, title: { text: [group, "MiB"].filter(Boolean).join(", ") },
        legend: { orientation: "h", font: { size: 10 }, traceorder: "normal" }, margin: { l: 170, r: 20, t: 40, b: 50 },
        xaxis: { rangemode: "tozero" }, yaxis: { autorange: "reversed", type: "category" },
      }, config);
    }
  };

  for (const draw of [heat, curves, front, memory]) draw();
})();
