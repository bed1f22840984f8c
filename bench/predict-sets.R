# The data sets of predict.R: prediction_sets() returns their names, prediction_set() reads one of them.
# Sourced after common.R.

# file: name in bench/data without ".csv.gz" (data/README.md names the origins).
# form: "named" has a line of column names, "bare" has none, "spaced" has none and is separated by white space.
# y: name of the response; "last" is the last column. log: whether the response is the logarithm of that column.
# without: columns that are left out, separated by "|".
PREDICTION_SETS <- utils::read.table(header = TRUE, row.names = 1, na.strings = "-", text = "
  name            file                form    task            y                  log   without
  airfoil         uci_airfoil         bare    regression      last               FALSE -
  concrete        uci_concrete        bare    regression      last               FALSE -
  energy          uci_energy          bare    regression      last               FALSE -
  gas             uci_gas             bare    regression      last               FALSE -
  parkinsons      uci_parkinsons      bare    regression      last               FALSE -
  elevators       uci_elevators       bare    regression      last               FALSE -
  bike            uci_bike            bare    regression      last               FALSE -
  pol             uci_pol             bare    regression      last               FALSE -
  kin40k          uci_kin40k          bare    regression      last               FALSE -
  autompg         uci_autompg         bare    regression      last               FALSE -
  forest          uci_forest          bare    regression      last               FALSE -
  boston          uci_housing         bare    regression      last               FALSE -
  machine         uci_machine         bare    regression      last               FALSE -
  pendulum        uci_pendulum        bare    regression      last               FALSE -
  protein         uci_protein         bare    regression      last               FALSE -
  puma32          uci_pumadyn32nm     bare    regression      last               FALSE -
  skillcraft      uci_skillcraft      bare    regression      last               FALSE -
  sml             uci_sml             bare    regression      last               FALSE -
  stock           uci_stock           bare    regression      last               FALSE -
  tamielectric    uci_tamielectric    bare    regression      last               FALSE -
  wine_red        uci_wine            bare    regression      last               FALSE -
  yacht           uci_yacht           bare    regression      last               FALSE -
  kegg_directed   uci_keggdirected    bare    regression      last               FALSE -
  kegg_undirected uci_keggundirected  bare    regression      last               FALSE -
  wine_white      wine_white          bare    regression      last               FALSE -
  abalone         abalone             bare    regression      last               FALSE -
  kin8nm          kin8nm              spaced  regression      last               FALSE -
  naval           naval               spaced  regression      V17                FALSE V18
  power           power               spaced  regression      last               FALSE -
  cpu_act         cpu_act             named   regression      target             FALSE -
  bank8fm         bank8fm             named   regression      target             FALSE -
  delta_elevators delta_elevators     named   regression      target             FALSE -
  space_ga        space_ga            named   regression      target             FALSE -
  debutanizer     debutanizer         named   regression      target             FALSE -
  wind            wind                named   regression      target             FALSE -
  no2             no2                 named   regression      target             FALSE -
  california      california_housing  named   regression      median_house_value TRUE  -
  diamonds        diamonds            named   regression      price              TRUE  -
  ames            ames                named   regression      Sale_Price         TRUE  -
  sacramento      sacramento          named   regression      price              TRUE  -
  car_prices      car_prices          named   regression      Price              TRUE  -
  houseprices     houseprices         named   regression      price              TRUE  -
  wage            wage                named   regression      wage               TRUE  rownames|logwage|region
  hitters         hitters             named   regression      Salary             TRUE  rownames
  college         college             named   regression      Outstate           FALSE rownames
  cps1988         cps1988             named   regression      wage               TRUE  -
  slid            slid                named   regression      wages              TRUE  -
  flights flights named regression arr_delay FALSE year|flight|tailnum|air_time|arr_time|time_hour
  higgs           higgs_subset        named   classification  label              FALSE -
  satellite       satellite           named   classification  last               FALSE -
  shuttle         shuttle             named   classification  last               FALSE -
  letter          letter              named   classification  lettr              FALSE -
  magic           keel_magic          bare    classification  last               FALSE -
  pendigits       keel_penbased       bare    classification  last               FALSE -
  phoneme         keel_phoneme        bare    classification  last               FALSE -
  optdigits       keel_optdigits      bare    classification  last               FALSE -
  segment         keel_segment        bare    classification  last               FALSE -
  spambase        keel_spambase       bare    classification  last               FALSE -
  vehicle         keel_vehicle        bare    classification  last               FALSE -
  texture         keel_texture        bare    classification  last               FALSE -
  german          keel_german         bare    classification  last               FALSE -
  australian      keel_australian     bare    classification  last               FALSE -
  wdbc            keel_wdbc           bare    classification  last               FALSE -
  splice          keel_splice         bare    classification  last               FALSE -
  contraceptive   keel_contraceptive  bare    classification  last               FALSE -
  mammographic    keel_mammographic   bare    classification  last               FALSE -
  saheart         keel_saheart        bare    classification  last               FALSE -
  pima            keel_pima           bare    classification  last               FALSE -
  marketing       keel_marketing      bare    classification  last               FALSE -
  vowel           keel_vowel          bare    classification  last               FALSE -
  libras          keel_movement_libras bare   classification  last               FALSE -
  adult           adult               bare    classification  last               FALSE -
  mammography     mammography         bare    classification  last               FALSE -
  banknote        banknote            bare    classification  last               FALSE -
  titanic         titanic             named   classification  survived           FALSE -
  cells           cells               named   classification  class              FALSE case
  credit          credit              named   classification  Status             FALSE -
  churn           churn               named   classification  churn              FALSE -
  attrition       attrition           named   classification  Attrition          FALSE -
  hmda            hmda                named   classification  deny               FALSE -
  oj              oj                  named   classification  Purchase           FALSE rownames")

prediction_sets <- function(pattern = "") grep(pattern, rownames(PREDICTION_SETS), value = TRUE)

read_table_of <- function(file, form) {
  path <- data_file(file)
  if (!file.exists(path)) {
    cat("There is no ", path, " (see bench/data/README.md): skipped.\n", sep = "")
    return(NULL)
  }
  utils::read.table(
    path, header = form == "named", sep = if (form == "spaced") "" else ",", quote = "\"", strip.white = TRUE,
    comment.char = "", stringsAsFactors = TRUE, check.names = TRUE
  )
}

# list(x, y, task, name): `x` a data frame of numbers and factors, `y` numbers or a factor. Rows with missing values,
# constant columns and classes of less than 50 rows (or a fiftieth of the rows) are left out. NULL if bench/data does
# not have the file.
prediction_set <- function(name) {
  about <- PREDICTION_SETS[name, ]
  data <- read_table_of(about$file, about$form)
  if (is.null(data)) return(NULL)
  data <- data[setdiff(names(data), strsplit(about$without, "|", fixed = TRUE)[[1]])]
  data <- data[stats::complete.cases(data), ]
  response <- if (about$y == "last") names(data)[ncol(data)] else about$y
  y <- data[[response]]
  if (about$task == "classification") {
    y <- factor(y)
    keep <- y %in% names(which(table(y) >= 50 | table(y) >= length(y) / 50))
    y <- droplevels(y[keep])
    data <- data[keep, ]
  } else if (about$log) {
    y <- log(y)
  }
  x <- data[setdiff(names(data), response)]
  categories <- vapply(x, \(column) is.factor(column) || is.logical(column), NA)
  x[categories] <- lapply(x[categories], factor)
  x <- x[vapply(x, \(column) length(unique(column)) > 1, NA)]
  rownames(x) <- NULL
  list(x = x, y = y, task = about$task, name = name)
}
