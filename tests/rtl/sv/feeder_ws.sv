// Feeds the weight-stationary array: ROWS weight words, then the input words of the fold. The next fold's weights may enter from
// the cycle on in which this fold's inputs begin, since the shadow registers are swapped in by that first input.
module feeder_ws #(
    parameter int ROWS = 4,
    parameter int DEST_W = $clog2(ROWS + 1)
) (
    input  logic              clk,
    input  logic              rst,
    // weights
    input  logic              weight_go,
    output logic              weight_half,
    input  logic       [15:0] weight_folds,
    input  logic              weight_available,
    output logic              weight_fire,
    output logic [DEST_W-1:0] dest,
    // inputs
    input  logic              go,
    output logic              half,
    output logic              done,
    input  logic       [15:0] folds,
    input  logic       [15:0] len,
    input  logic              x_available,
    output logic              fire,
    output logic              first,
    output logic       [15:0] fold,
    output logic       [15:0] n
);
    logic [15:0] weight_fold;
    logic [DEST_W-1:0] row;
    logic last, loaded, waiting;  // a fold's weights are in the shadow registers; none were sent for the next fold

    assign first = n == 0;
    assign last = n == len - 1;
    assign fire = go && x_available && (!first || loaded);
    assign done = fire && last && fold == folds - 1;

    assign waiting = !loaded || (fire && first);
    assign weight_fire = weight_go && weight_available && (row != 0 || waiting);
    assign dest = DEST_W'(ROWS - 1) - row;

    always_ff @(posedge clk) begin
        if (rst) begin
            {n, fold, half, row, weight_fold, weight_half, loaded} <= '0;
        end else begin
            if (weight_fire) begin
                row <= row == DEST_W'(ROWS - 1) ? '0 : row + 1;
                if (row == DEST_W'(ROWS - 1)) begin
                    weight_fold <= weight_fold == weight_folds - 1 ? '0 : weight_fold + 1;
                    if (weight_fold == weight_folds - 1) weight_half <= !weight_half;
                end
            end
            if (weight_fire && row == DEST_W'(ROWS - 1)) loaded <= 1'b1;
            else if (fire && first) loaded <= 1'b0;
            if (fire) begin
                n <= last ? '0 : n + 1;
                if (last) fold <= done ? '0 : fold + 1;
                if (done) half <= !half;
            end
        end
    end
endmodule
