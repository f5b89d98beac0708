"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // -- filter and search ---------------------------------------------------------------------
  const chips = all(".chip"), search = document.getElementById("search");
  const pressed = (chip) => chip.getAttribute("aria-pressed") === "true";
  const filter = () => {
    const tones = new Set(chips.filter(pressed).map((chip) => chip.dataset.tone));
    const words = (search ? search.value : "").toLowerCase().split(/\s+/).filter(Boolean);
    for (const card of all(".card")) {
      const told = tones.has(card.dataset.tone) && words.every((word) => card.dataset.words.includes(word));
      card.hidden = !told;
      const entry = document.querySelector(`[data-entry="${card.id}"]`);
      if (entry) entry.hidden = !told;
    }
    for (const file of all("section.file")) {
      const cards = all(".card", file);
      file.hidden = cards.length > 0 && cards.every((card) => card.hidden);
    }
  };
  for (const chip of chips) {
    chip.addEventListener("click", () => {
      chip.setAttribute("aria-pressed", String(!pressed(chip)));
      filter();
    });
  }
  if (search) search.addEventListener("input", filter);

  // -- what opens ----------------------------------------------------------------------------
  const opened = () => {
    const aim = all("details[id]").find((part) => `#${part.id}` === location.hash);
    if (aim) aim.open = true;
  };
  addEventListener("hashchange", opened);
  opened();
  let shut = [];
  addEventListener("beforeprint", () => {
    shut = all("details:not([open])");
    for (const part of shut) part.open = true;
  });
  addEventListener("afterprint", () => {
    for (const part of shut) part.open = false;
  });
  for (const button of all(".copy")) {
    button.addEventListener("click", () => {
      const done = () => { button.textContent = "copied"; };
      if (navigator.clipboard) navigator.clipboard.writeText(button.dataset.copy).then(done, () => {});
    });
  }

  // -- plots ---------------------------------------------------------------------------------
  const color = (name) => getComputedStyle(document.body).getPropertyValue(`--${name}`).trim();
  const reading = (data, i) => {
    const bits = Object.entries(data.series).map(([name, list]) => `${name} ${list[i] === null ? "–" : list[i]}`);
    return `${data.argument} = ${data.at[i]}: ${bits.join(", ")} of ${data.full} bits`;
  };
  const point = (plot, data) => {
    const picture = plot.querySelector("svg"), output = plot.parentElement.querySelector("output");
    const [low, high] = [data.steps[0], data.steps[data.steps.length - 1]];
    picture.addEventListener("mousemove", (event) => {
      const box = picture.getBoundingClientRect(), view = picture.viewBox.baseVal;
      const x = (event.clientX - box.left) / box.width * view.width;
      const step = low + (x - 34) / (view.width - 46) * (high - low);
      let best = 0;
      data.steps.forEach((at, i) => { if (Math.abs(at - step) < Math.abs(data.steps[best] - step)) best = i; });
      output.textContent = reading(data, best);
    });
    picture.addEventListener("mouseleave", () => { output.textContent = ""; });
  };
  const live = (plot, data) => {
    const argument = data.argument.replace(/[%<&]/g, "_");  // plotly reads these in a template
    const sizes = { value: 9, autodiff: 7, rule: 4 };
    const traces = Object.entries(data.series).map(([name, bits]) => ({
      name, x: data.steps, y: bits, mode: "lines+markers", text: data.at, opacity: name === "value" ? 0.45 : 1,
      hovertemplate: `${argument} = %{text}: %{y} of ${data.full} bits`, line: { width: 1, color: color(name) },
      marker: { size: sizes[name], color: color(name) },
    }));
    const marks = data.faults.map(([x0, x1, severity]) => ({
      type: "rect", xref: "x", yref: "paper", x0, x1, y0: 0, y1: 1, layer: "below",
      line: { width: x1 - x0 < 0.02 ? 1 : 0, color: color(severity) }, fillcolor: color(severity), opacity: 0.16,
    }));
    const layout = {
      height: 220, margin: { l: 36, r: 12, t: 8, b: 28 }, showlegend: false, hovermode: "closest", shapes: marks,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { size: 11, color: color("faint") },
      hoverlabel: { bgcolor: color("paper"), font: { color: color("ink") } },
      xaxis: { tickvals: data.ticks.map((tick) => tick[0]), ticktext: data.ticks.map((tick) => tick[1]),
        gridcolor: color("line"), zeroline: false },
      yaxis: { range: [-1, data.full + 1], tickvals: [0, data.full / 2, data.full], gridcolor: color("line"),
        zeroline: false, fixedrange: true },
    };
    const place = plot.querySelector(".live") || plot.appendChild(document.createElement("div"));
    place.className = "live";
    window.Plotly.react(place, traces, layout, { displayModeBar: false, responsive: true });
    plot.classList.add("drawn");
    plot.title = "Drag to zoom; a double click shows all";
  };
  const plots = all(".plot").map((plot) => [plot, JSON.parse(plot.dataset.plot)]);
  if (!window.Plotly) {
    for (const [plot, data] of plots) point(plot, data);
    return;
  }
  const known = new Map(plots);
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      watch.unobserve(entry.target);
      live(entry.target, known.get(entry.target));
    }
  }, { rootMargin: "200px" });
  for (const [plot] of plots) watch.observe(plot);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const [plot, data] of plots) if (plot.classList.contains("drawn")) live(plot, data);
  });
})();
