"""The colours that figures, animations and the page share."""

# Okabe and Ito's set, safe for colour-blind readers, in an order that keeps neighbours far apart.
SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6A3D9A", "#4D4D4D")

TEXT = "#22262B"  # text and axes
SECONDARY = "#7A828C"  # secondary text, ticks, references
GRID = "#E3E6EA"
BACKGROUND = "#FFFFFF"

BODY = "#8DB8DA"  # a soft body without values
CABLE = "#14306B"
SLACK = "#6F8ABD"  # a cable that does not pull
MARKER = "#D55E00"
TARGET = "#007A5A"
GROUND = "#9AA3AD"
SHADOW = "#39424E"
